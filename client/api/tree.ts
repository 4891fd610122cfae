import type { RolloutInput } from '../../contracts/rollout';
import type { ContinuationWay } from '../../contracts/task';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import type { BlobStore } from '../../stores/blobs';
import type { RolloutRow } from '../../stores/ledger';
import type { Records } from './connect';
import { currentResult } from '../../rollouts/verdicts';
import { UserError } from '../errors';
import { findContinuationInput } from '../../rollouts/inputs';
import { readTrajectory } from '../../rollouts/trajectory/steps';

/** A rollout with what was made of it. */
export interface TreeRollout {
  rolloutId: string;
  state: 'running' | 'scored' | 'unscored' | 'cancelled';
  reward: number | null;
  model: string;
  /** Of a continuation: how it went on, and what its agent did first. */
  way: ContinuationWay | null;
  action: string | null;
  /** Its steps that were gone on from, in order. */
  points: TreePoint[];
}

/** A step that was gone on from. */
export interface TreePoint {
  step: number;
  /** The snapshot; null where the calls before were made again instead. */
  version: string | null;
  /** Mean reward of all that came of it and was scored; null when nothing was. */
  value: number | null;
  /** Rollouts that came of it, those of their own steps included. */
  visits: number;
  scored: number;
  continuations: TreeRollout[];
}

type Store = Pick<Records, 'ledger' | 'blobs'>;

/**
 * The tree under a rollout: its continuations, theirs, and so on, as the ledger has them.
 * @throws UserError when there is no such rollout
 */
export async function treeOf({ ledger, blobs }: Store, rolloutId: string): Promise<TreeRollout> {
  const root = await ledger.rollout(rolloutId);
  if (!root) throw new UserError(`there is no rollout ${rolloutId}; see: rollouts list`);
  const rows = await ledger.rollouts({ batchId: root.batchId });
  const children = Map.groupBy(rows, ({ parentRolloutId }) => parentRolloutId ?? '');
  const grow = async (row: RolloutRow): Promise<TreeRollout> => {
    const below = await Promise.all(
      (children.get(row.rolloutId) ?? []).map(async (child) => ({
        row: child,
        input: await findContinuationInput(blobs, child.rolloutId),
        tree: await grow(child),
      })),
    );
    for (const { tree, input, row: child } of below) {
      tree.way = input?.from?.way ?? 'snapshot';
      tree.action = await firstAction(blobs, child, input);
    }
    const byStep = Map.groupBy(below, ({ row: child }) => child.parentStep ?? 0);
    const points = [...byStep].map(([step, forks]) => pointOf(step, forks));
    return { ...bare(row), points: points.toSorted((a, b) => a.step - b.step) };
  };
  return grow(root);
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

function pointOf(
  step: number,
  forks: { tree: TreeRollout; input: RolloutInput | null }[],
): TreePoint {
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

async function firstAction(
  blobs: BlobStore,
  { result, parentStep }: RolloutRow,
  input: RolloutInput | null,
): Promise<string | null> {
  const entries = await readTrajectory(blobs, result?.trajectory ?? '', input?.from?.trajectory);
  const first = entries.find((entry) => entry.type === 'reply' && entry.step >= (parentStep ?? 0));
  return first ? actionOf(first) : null;
}

/** What a reply does, in a line. */
export function actionOf(entry: TrajectoryEntry): string {
  if (entry.type !== 'reply') return entry.type;
  const { text, toolCalls } = entry.reply;
  const calls = toolCalls.map(
    ({ name, arguments: args, rawArguments }) =>
      `${name} ${args === null ? (rawArguments ?? '') : JSON.stringify(args)}`,
  );
  return calls.length > 0 ? calls.join('; ') : `says ${JSON.stringify(text)}`;
}
