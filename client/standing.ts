import type { Checkpoint, ExploreNode, RolloutInput, RolloutStatus } from '../contracts/rollout';
import { PackedTask } from '../contracts/task';
import type { ContinuationWay } from '../contracts/task';
import { refusedWay, wayOf } from '../tasks/ways';
import type { ChosenWay } from '../tasks/ways';
import type { Rollouts } from './connect';
import { currentResult } from './current';
import { UsageError, UserError } from './errors';
import { inputOf } from './inputs';
import { rolloutStatus } from './rollouts';
import { entriesOf, headBefore, readLinks, spentBefore } from './transcript';
import type { Link } from './transcript';

/** A rollout as it stands, running or ended: what can be gone on from. */
export interface Standing {
  input: RolloutInput;
  packed: PackedTask;
  state: ExploreNode['state'];
  reward: number | null;
  /** Replies of the model so far. */
  steps: number;
  trajectory: string;
  checkpoints: Checkpoint[];
}

/** Forks of forks of forks. */
export const deepest = 100;

/** Forks between a rollout and its first ancestor. */
export const depthOf = ({ from }: RolloutInput): number => from?.depth ?? (from ? 1 : 0);

const answerMs = 10_000;

/**
 * Asks the ledger, and of a rollout that runs its workflow.
 * @throws UserError when there is no such rollout, or nobody tells where it is
 */
export async function standingOf(rollouts: Rollouts, rolloutId: string): Promise<Standing> {
  const { blobs, ledger } = rollouts;
  const input = await inputOf(rollouts, rolloutId);
  const packed = PackedTask.parse(JSON.parse((await blobs.get(input.taskRef)).toString()));
  const row = await ledger.rollout(rolloutId);
  const result = row && currentResult(row);
  if (result) {
    const { reward, steps, trajectory, checkpoints, failure } = result;
    const state = failure?.class === 'cancelled' ? 'cancelled' : result.outcome;
    return { input, packed, state, reward, steps, trajectory, checkpoints };
  }
  const status = await statusOf(rollouts, rolloutId);
  const { reward, step: steps, trajectory, checkpoints } = status;
  return { input, packed, state: 'running', reward, steps, trajectory, checkpoints };
}

async function statusOf(rollouts: Rollouts, rolloutId: string): Promise<RolloutStatus> {
  let status: RolloutStatus | null;
  try {
    const asked = () => rolloutStatus(rollouts, rolloutId);
    status = await rollouts.temporal.withDeadline(Date.now() + answerMs, asked);
  } catch {
    throw new UserError(
      `${rolloutId} has not ended, and no worker tells where it is; see: rollouts status`,
    );
  }
  if (status) return status;
  throw new UserError(
    `${rolloutId} has no result, and Temporal does not know it; see: rollouts doctor`,
  );
}

/** How continuations go on from here. @throws UsageError when they cannot go that way */
export function wayFrom({ input, packed }: Standing, asked?: ContinuationWay): ChosenWay {
  const chosen = wayOf(packed.task, asked);
  const refused = refusedWay(packed.task, chosen.way);
  if (refused === null) return chosen;
  throw new UsageError(
    `${asked ? `--way ${asked}: ` : ''}${input.rolloutId} cannot go on that way: ${refused}`,
  );
}

/** Where a continuation can begin. */
export interface ForkPoint extends Checkpoint {
  chosen: ChosenWay;
}

/**
 * The point before a step: its checkpoint, also one older than those that a rollout's result still lists. Without one, and
 * unless a way was asked for, the start is made again and the calls before the step with it.
 * @throws UsageError when there is no such step, or the way that was asked for needs a checkpoint
 */
export async function forkPointAt(
  rollouts: Rollouts,
  standing: Standing,
  step: number,
  asked?: ContinuationWay,
): Promise<ForkPoint> {
  const { rolloutId } = standing.input;
  const chosen = wayFrom(standing, asked);
  const listed = standing.checkpoints.find((checkpoint) => checkpoint.step === step);
  if (listed && chosen.way === 'snapshot') return { ...listed, chosen };
  const links = await readLinks(rollouts.blobs, standing.trajectory);
  const entries = entriesOf(links);
  const steps = entries.flatMap((entry) => (entry.type === 'reply' ? [entry.step] : []));
  const next = standing.state === 'running' ? standing.steps + 1 : null;
  if (!steps.includes(step) && step !== next) {
    throw new UsageError(
      steps.length === 0
        ? `${rolloutId} has made no step to go on from`
        : `--at ${step}: ${rolloutId} has no such step; it has made ${steps.at(-1)}`,
    );
  }
  const spent = spentBefore(entries, step);
  const trajectory = await headBefore(rollouts.blobs, links, step);
  if (chosen.way === 'replay') return { step, version: '', trajectory, spent, chosen };
  const version = versionBefore(links, step);
  if (version !== null) return { step, version, trajectory, spent, chosen };
  if (asked !== undefined) {
    throw new UsageError(
      `--at ${step}: ${rolloutId} has no checkpoint before that step${stepsWithOne(standing)}; --way replay needs none`,
    );
  }
  const why = `there is no checkpoint before step ${step}`;
  return { step, version: '', trajectory, spent, chosen: { way: 'replay', why } };
}

/** The version that was taken before a step. @throws UsageError when there is none */
export async function versionAt(
  rollouts: Rollouts,
  standing: Standing,
  step: number,
): Promise<string> {
  const listed = standing.checkpoints.find((checkpoint) => checkpoint.step === step);
  if (listed) return listed.version;
  const version = versionBefore(await readLinks(rollouts.blobs, standing.trajectory), step);
  if (version !== null) return version;
  throw new UsageError(
    `--at ${step}: ${standing.input.rolloutId} has no checkpoint before that step${stepsWithOne(standing)}`,
  );
}

/** Steps are recorded with the version that was taken before their first call. */
function versionBefore(links: Link[], step: number): string | null {
  const found = entriesOf(links).findLast(
    (entry) => entry.type === 'observation' && entry.step === step && entry.version !== undefined,
  );
  return found?.type === 'observation' ? (found.version ?? null) : null;
}

function stepsWithOne({ checkpoints }: Standing): string {
  const steps = checkpoints.map(({ step }) => step);
  return steps.length === 0 ? '' : ` (it has them before ${steps.join(', ')})`;
}
