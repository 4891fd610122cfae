import type { RolloutInput } from '../../contracts/rollout';
import type { ContinuationWay } from '../../contracts/task';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import type { RolloutRow } from '../../stores/ledger';
import type { Records } from './connect';
import { currentResult } from '../../rollouts/verdicts';
import { UserError } from '../errors';
import { findContinuationInput } from '../../rollouts/inputs';
import { readEntries } from '../../rollouts/trajectory/chain';

/** A rollout with what was made of it. */
export interface TreeRollout {
  rolloutId: string;
  state: 'running' | 'scored' | 'unscored' | 'cancelled';
  reward: number | null;
  model: string;
  /** Of a continuation: how it was continued, and what its agent did first. Null for the root. */
  way: ContinuationWay | null;
  action: string | null;
  /** Its steps that were forked, in order. */
  points: TreePoint[];
}

/** A step that was forked. */
export interface TreePoint {
  step: number;
  /** The snapshot that the forks started from; null where the calls before the step were replayed instead. */
  version: string | null;
  /** Mean reward of the scored rollouts below; null when none was scored. */
  value: number | null;
  /** Rollouts below, forks of forks included. */
  visits: number;
  scored: number;
  continuations: TreeRollout[];
}

type Store = Pick<Records, 'ledger' | 'blobs' | 'documents'>;

/**
 * Reads the tree under a rollout: its continuations, theirs, and so on, as the ledger has them.
 * @throws UserError when there is no such rollout
 */
export async function readTree(store: Store, rolloutId: string): Promise<TreeRollout> {
  const root = await store.ledger.rollout(rolloutId);
  if (!root) throw new UserError(`there is no rollout ${rolloutId}; see: rollouts list`);
  return growTree(store, root, byParent(await store.ledger.rollouts({ batchId: root.batchId })));
}

/** The row of a rollout and those of its continuations, theirs, and so on, among the rows of its batch. */
export function rowsUnder(root: RolloutRow, rows: RolloutRow[]): RolloutRow[] {
  const children = byParent(rows);
  const under = (row: RolloutRow): RolloutRow[] => [
    row,
    ...(children.get(row.rolloutId) ?? []).flatMap(under),
  ];
  return under(root);
}

const byParent = (rows: RolloutRow[]): Map<string, RolloutRow[]> =>
  Map.groupBy(rows, ({ parentRolloutId }) => parentRolloutId ?? '');

interface Child {
  row: RolloutRow;
  input: RolloutInput | null;
  tree: TreeRollout;
}

async function growTree(
  store: Store,
  row: RolloutRow,
  children: Map<string, RolloutRow[]>,
): Promise<TreeRollout> {
  const below = await Promise.all(
    (children.get(row.rolloutId) ?? []).map(async (child): Promise<Child> => {
      const input = await findContinuationInput(store.blobs, child.rolloutId);
      const tree = await growTree(store, child, children);
      const way = input?.from?.way ?? 'snapshot';
      const action = await readFirstAction(store, child, input);
      return { row: child, input, tree: { ...tree, way, action } };
    }),
  );
  const byStep = Map.groupBy(below, ({ row: child }) => child.parentStep ?? 0);
  const points = [...byStep].map(([step, forks]) => toPoint(step, forks));
  return { ...bare(row), points: points.toSorted((a, b) => a.step - b.step) };
}

function bare(row: RolloutRow): Omit<TreeRollout, 'points'> {
  const { rolloutId, model } = row;
  const result = currentResult(row);
  const state = !result
    ? 'running'
    : result.failure?.class === 'cancelled'
      ? 'cancelled'
      : result.outcome;
  const reward = result?.reward ?? null;
  return { rolloutId, state, reward, model, way: null, action: null };
}

function toPoint(step: number, forks: Child[]): TreePoint {
  const continuations = forks.map(({ tree }) => tree).toSorted(byId);
  const below = continuations.flatMap(rolloutsOf);
  const rewards = below.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  return {
    step,
    version: forks.map(({ input }) => input?.from?.version).find((version) => version) ?? null,
    value: meanOf(rewards),
    visits: below.length,
    scored: rewards.length,
    continuations,
  };
}

/** Every rollout of a tree, the root first. */
export function rolloutsOf(tree: TreeRollout): TreeRollout[] {
  return [tree, ...tree.points.flatMap(({ continuations }) => continuations.flatMap(rolloutsOf))];
}

export function meanOf(numbers: number[]): number | null {
  if (numbers.length === 0) return null;
  return numbers.reduce((sum, one) => sum + one, 0) / numbers.length;
}

const byId = (a: TreeRollout, b: TreeRollout): number =>
  a.rolloutId.localeCompare(b.rolloutId, 'en', { numeric: true });

async function readFirstAction(
  { documents }: Store,
  { result, parentStep }: RolloutRow,
  input: RolloutInput | null,
): Promise<string | null> {
  const entries = await readEntries(documents, result?.trajectory ?? '', input?.from?.trajectory);
  const first = entries.find((entry) => entry.type === 'reply' && entry.step >= (parentStep ?? 0));
  return first ? actionOf(first) : null;
}

/** Says in one line what a reply does. */
export function actionOf(entry: TrajectoryEntry): string {
  if (entry.type !== 'reply') return entry.type;
  const { text, toolCalls } = entry.reply;
  const calls = toolCalls.map(
    ({ name, arguments: args, rawArguments }) =>
      `${name} ${args === null ? (rawArguments ?? '') : JSON.stringify(args)}`,
  );
  return calls.length > 0 ? calls.join('; ') : `says ${JSON.stringify(text)}`;
}
