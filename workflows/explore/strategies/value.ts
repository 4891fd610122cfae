import { forksOf, rootOf } from './strategy';
import type { Strategy } from './strategy';
import { leastCertain, pointsOf } from './uncertain';

/**
 * What each step of a rollout was worth: `count` continuations from every `every`-th checkpoint of the root, and the mean of their
 * rewards is the value of being there. A step after which the value drops is a step that went wrong. The checkpoints take turns,
 * so whatever ends the search early has seen all of them. With `at: uncertain`, as many visits again go, one by one, to where
 * the standard error is the largest; with a number, only checkpoints from that step on are looked at.
 */
export const value: Strategy = (tree, choice) => {
  const points = pointsOf(tree, choice);
  const forks = forksOf(tree);
  for (let round = 0; round < choice.count; round += 1) {
    const fork = points.filter((point) => forks(point).length <= round);
    if (fork.length > 0) return { fork, done: false };
  }
  const { rolloutId } = rootOf(tree);
  const visits = tree.filter(({ parentRolloutId }) => parentRolloutId === rolloutId);
  const wanted = points.length * choice.count * (choice.at === 'uncertain' ? 2 : 1);
  if (visits.length >= wanted) return { fork: [], done: true };
  // The first ones tell where more are needed.
  const first = points.flatMap((point) => forks(point).slice(0, choice.count));
  if (first.some(({ state }) => state === 'running')) return { fork: [], done: false };
  const next = leastCertain(tree, points);
  return { fork: next ? [next] : [], done: next === null };
};
