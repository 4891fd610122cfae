import type { TrajectoryEntry } from '../../contracts/trajectory';
import type { Rollouts } from './connect';
import { editsBetween } from '../../rollouts/trajectory/edits';
import { readInput } from '../../rollouts/inputs';
import { readStanding } from './rollout-status';
import type { Standing } from './rollout-status';
import {
  addLink,
  entriesOf,
  headBefore,
  isBefore,
  readLinks,
} from '../../rollouts/trajectory/chain';

/**
 * The transcript of a rollout before a step as its worlds gave it: where it or an ancestor was shown an edited observation, the
 * one that was really made stands in it. This is what a replay compares with.
 * @returns its head
 */
export async function recordedBefore(
  rollouts: Rollouts,
  standing: Standing,
  step: number,
): Promise<string> {
  const { blobs } = rollouts;
  const links = await readLinks(blobs, standing.trajectory);
  const own = entriesOf(links).filter((entry) => isBefore(entry, step));
  const real = await recordedEntries(rollouts, standing, own);
  return real === own ? headBefore(blobs, links, step) : addLink(blobs, '', real);
}

async function recordedEntries(
  rollouts: Rollouts,
  { input }: Standing,
  own: TrajectoryEntry[],
): Promise<TrajectoryEntry[]> {
  const { from } = input;
  if (!from) return own;
  const parent = await readStanding(rollouts, from.parentRolloutId);
  const shown = entriesOf(await readLinks(rollouts.blobs, parent.trajectory)).filter((entry) =>
    isBefore(entry, from.step),
  );
  const real = await recordedEntries(rollouts, parent, shown);
  if (real === shown && editsBetween(shown, own, from.step).length === 0) return own;
  return [...real, ...own.filter((entry) => !isBefore(entry, from.step))];
}

/** What a replay of a rollout's calls begins in: `version` is empty where that is the task's own start. */
export async function replayBase(
  rollouts: Rollouts,
  { from }: Standing['input'],
): Promise<{ version: string }> {
  if (!from) return { version: '' };
  if (from.way !== 'replay') return { version: from.version };
  return replayBase(rollouts, await readInput(rollouts, from.parentRolloutId));
}
