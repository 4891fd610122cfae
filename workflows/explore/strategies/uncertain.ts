import type { ExploreNode, StrategyChoice } from '../../../contracts/exploration';
import { forksOf, rootOf, times } from './strategy';
import type { Fork, Wish } from './strategy';

/** Continuations from a checkpoint before anything is said about how certain its value is. */
export const probesEach = 2;

/** Every `every`-th checkpoint of the root, the first one among them; from step `at` on, where that is a number. */
export function pointsOf(tree: ExploreNode[], { every, at }: StrategyChoice): Fork[] {
  const { rolloutId, checkpoints } = rootOf(tree);
  return checkpoints
    .filter((step) => typeof at !== 'number' || step >= at)
    .filter((_step, index) => index % every === 0)
    .map((step) => ({ rolloutId, step }));
}

/**
 * The standard error of a checkpoint's value, from the rewards of its continuations. Few equal rewards are no certainty, so each
 * estimate of the variance holds one reward more, half the range of all rewards away from the mean. Infinite before the first one;
 * those that still run count as visits.
 */
export function standardError(nodes: ExploreNode[], range: number): number {
  if (nodes.length === 0) return Infinity;
  const rewards = nodes.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / Math.max(1, rewards.length);
  const squares = rewards.reduce((sum, reward) => sum + (reward - mean) ** 2, 0);
  const variance = (squares + range ** 2 / 4) / (rewards.length + 1);
  return Math.sqrt(variance / nodes.length);
}

/** How far apart rewards are; 1 while nothing tells them apart. */
export function rangeOf(tree: ExploreNode[]): number {
  let least = Infinity;
  let most = -Infinity;
  for (const { reward } of tree) {
    if (reward === null) continue;
    least = Math.min(least, reward);
    most = Math.max(most, reward);
  }
  return most > least ? most - least : 1;
}

/** The point with the largest standard error, the earliest of equals. */
export function leastCertain(tree: ExploreNode[], points: Fork[], first = Infinity): Fork | null {
  const range = rangeOf(tree);
  const forks = forksOf(tree);
  let found: { point: Fork; error: number } | null = null;
  for (const point of points) {
    const error = standardError(forks(point).slice(0, first), range);
    if (!found || error > found.error) found = { point, error };
  }
  return found?.point ?? null;
}

/**
 * Where in the root a search begins: the given step, the last checkpoint, or the least certain one, which is known once a few
 * probes of each have ended. `probes` have been made of it then.
 */
export function beginning(
  tree: ExploreNode[],
  choice: StrategyChoice,
): { start: Fork | null; probes: number } | { wait: Wish } {
  const { rolloutId, checkpoints } = rootOf(tree);
  const { at } = choice;
  if (at !== 'uncertain') {
    const step = at === 'last' ? checkpoints.at(-1) : at;
    return { start: step === undefined ? null : { rolloutId, step }, probes: 0 };
  }
  const points = pointsOf(tree, choice);
  const forks = forksOf(tree);
  const fork = points.flatMap((point) => times(probesEach - forks(point).length, point));
  const probes = probesOf(tree, points);
  if (fork.length > 0 || probes.some(({ state }) => state === 'running')) {
    return { wait: { fork, done: false } };
  }
  // By the probes alone, so that what is found later moves it no more.
  const probed = tree.slice(0, 1).concat(probes);
  return { start: leastCertain(probed, points, probesEach), probes: probesEach };
}

export function probesOf(tree: ExploreNode[], points: Fork[]): ExploreNode[] {
  const forks = forksOf(tree);
  return points.flatMap((point) => forks(point).slice(0, probesEach));
}
