import type { Checkpoint } from '../../contracts/rollout';
import type { ContinuationWay } from '../../contracts/task';
import type { DenvClient } from '../../denv/client';
import { readEntries } from '../../rollouts/trajectory/chain';
import { findPoint, findVersionBefore, stepsIn } from '../../rollouts/trajectory/checkpoints';
import type { ChosenWay } from '../../rollouts/ways';
import type { Rollouts } from './connect';
import { UsageError } from '../errors';
import { wayFrom } from './rollout-status';
import type { Standing } from './rollout-status';

/**
 * Chooses how a fork of this point is continued. Where the point has no version, or an expired one, the calls before it are
 * replayed, unless somebody asked for a way.
 * @throws UsageError when the way that was asked for needs a checkpoint
 */
export async function chooseWay(
  rollouts: Pick<Rollouts, 'denv'>,
  standing: Standing,
  point: Checkpoint,
  asked?: ContinuationWay,
): Promise<ChosenWay> {
  const chosen = wayFrom(standing, asked);
  if (chosen.way === 'replay') return chosen;
  const missing = await findWhyMissing(rollouts, point);
  if (missing === null) return chosen;
  if (asked !== undefined) throw missingCheckpoint(standing, point.step, missing);
  return { way: 'replay', why: missing };
}

/** Finds why nothing can start from a point's version; null when it can. */
export async function findWhyMissing(
  { denv }: Pick<Rollouts, 'denv'>,
  { step, version }: Pick<Checkpoint, 'step' | 'version'>,
): Promise<string | null> {
  if (version === '') return `there is no checkpoint before step ${step}`;
  if (await hasExpired(denv, version)) return `the checkpoint before step ${step} has expired`;
  return null;
}

/** Asks whether a version that once was there is gone. Where nobody answers, it counts as there. */
export async function hasExpired(denv: DenvClient, versionId: string): Promise<boolean> {
  try {
    await denv.getVersion(versionId);
    return false;
  } catch (error) {
    return Reflect.get(Object(error), 'code') === 'version_not_found';
  }
}

export function missingCheckpoint(standing: Standing, step: number, why: string): UsageError {
  const { rolloutId } = standing.input;
  const known = stepsWithOne(standing);
  return new UsageError(`--at ${step}: of ${rolloutId} ${why}${known}; --way replay needs none`);
}

/**
 * Reads the point before a step of a rollout.
 * @throws UsageError when the rollout has made no such step
 */
export async function readPoint(
  { documents }: Pick<Rollouts, 'documents'>,
  standing: Standing,
  step: number,
): Promise<Checkpoint> {
  const { input, trajectory } = standing;
  const point = await findPoint(documents, standing, step);
  if (point) return point;
  const last = stepsIn(await readEntries(documents, trajectory)).at(-1);
  throw new UsageError(
    last === undefined
      ? `${input.rolloutId} has made no step to fork`
      : `--at ${step}: ${input.rolloutId} has no such step; it has made ${last}`,
  );
}

/** Reads the version that was taken before a step. @throws UsageError when there is none */
export async function readVersion(
  { documents }: Pick<Rollouts, 'documents'>,
  standing: Standing,
  step: number,
): Promise<string> {
  const listed = standing.checkpoints.find((checkpoint) => checkpoint.step === step);
  if (listed) return listed.version;
  const version = findVersionBefore(await readEntries(documents, standing.trajectory), step);
  if (version !== null) return version;
  throw new UsageError(
    `--at ${step}: ${standing.input.rolloutId} has no checkpoint before that step${stepsWithOne(standing)}`,
  );
}

function stepsWithOne({ checkpoints }: Standing): string {
  const steps = checkpoints.map(({ step }) => step);
  return steps.length === 0 ? '' : ` (it has them before ${steps.join(', ')})`;
}
