import type { Checkpoint } from '../../contracts/rollout';
import type { ContinuationWay } from '../../contracts/task';
import type { ChosenWay } from '../../rollouts/ways';
import type { Rollouts } from './connect';
import { UsageError } from '../errors';
import { hasExpired } from './expired';
import { wayFrom } from './rollout-status';
import type { Standing } from './rollout-status';
import { entriesOf, headBefore, readLinks, spentBefore } from '../../rollouts/trajectory/chain';
import type { Link } from '../../rollouts/trajectory/chain';

/** Where a continuation can begin. */
export interface ForkPoint extends Checkpoint {
  chosen: ChosenWay;
}

/**
 * The point before a step: its checkpoint, also one older than those that a rollout's result still lists. Where there is none, or
 * it has expired, and unless a way was asked for, the start is made again and the calls before the step with it.
 * @throws UsageError when there is no such step, or the way that was asked for needs a checkpoint
 */
export async function forkPointAt(
  rollouts: Rollouts,
  standing: Standing,
  step: number,
  asked?: ContinuationWay,
): Promise<ForkPoint> {
  const chosen = wayFrom(standing, asked);
  const point = await pointAt(rollouts, standing, step);
  if (chosen.way === 'replay') return { ...point, version: '', chosen };
  const missing = await whyMissing(rollouts, point);
  if (missing === null) return { ...point, chosen };
  if (asked !== undefined) throw missingCheckpoint(standing, step, missing);
  return { ...point, version: '', chosen: { way: 'replay', why: missing } };
}

/** Why nothing can start from a point's version; null when it can. */
export async function whyMissing(
  { denv }: Pick<Rollouts, 'denv'>,
  { step, version }: Pick<Checkpoint, 'step' | 'version'>,
): Promise<string | null> {
  if (version === '') return `there is no checkpoint before step ${step}`;
  if (await hasExpired(denv, version)) return `the checkpoint before step ${step} has expired`;
  return null;
}

export function missingCheckpoint(standing: Standing, step: number, why: string): UsageError {
  const { rolloutId } = standing.input;
  const known = stepsWithOne(standing);
  return new UsageError(`--at ${step}: of ${rolloutId} ${why}${known}; --way replay needs none`);
}

/** Its version is empty where none was taken. */
async function pointAt({ blobs }: Rollouts, standing: Standing, step: number): Promise<Checkpoint> {
  const listed = standing.checkpoints.find((checkpoint) => checkpoint.step === step);
  if (listed) return listed;
  const links = await readLinks(blobs, standing.trajectory);
  const entries = entriesOf(links);
  refuseUnmade(
    standing,
    entries.flatMap((entry) => (entry.type === 'reply' ? [entry.step] : [])),
    step,
  );
  return {
    step,
    version: versionBefore(links, step) ?? '',
    trajectory: await headBefore(blobs, links, step),
    spent: spentBefore(entries, step),
  };
}

/** Of a rollout that runs, the next step can be gone on from too. */
function refuseUnmade({ input, state, steps }: Standing, made: number[], step: number): void {
  if (made.includes(step) || (state === 'running' && step === steps + 1)) return;
  throw new UsageError(
    made.length === 0
      ? `${input.rolloutId} has made no step to go on from`
      : `--at ${step}: ${input.rolloutId} has no such step; it has made ${made.at(-1)}`,
  );
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
