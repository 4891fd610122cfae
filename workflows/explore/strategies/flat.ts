import { forksOf, times } from './strategy';
import type { Strategy } from './strategy';
import { beginning } from './uncertain';

/**
 * `count` continuations from one checkpoint of the root: how likely is a good end from here, and what else could have been done?
 * With `at: uncertain`, two probes of every `every`-th checkpoint come first, and the `count` from the one whose value is the
 * least certain.
 */
export const flat: Strategy = (tree, choice) => {
  const begun = beginning(tree, choice);
  if ('wait' in begun) return begun.wait;
  const { start, probes } = begun;
  if (!start) return { fork: [], done: true };
  const missing = choice.count + probes - forksOf(tree)(start).length;
  return { fork: times(missing, start), done: missing <= 0 };
};
