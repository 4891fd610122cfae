import type { ExploreNode, StrategyChoice } from '../../../contracts/exploration';

/** A continuation that a strategy wants: of which rollout, and from before which of its steps. */
export interface Fork {
  rolloutId: string;
  step: number;
}

export interface Wish {
  /** In order; what cannot begin now is left out, and asked for again by the next look at the tree. */
  fork: Fork[];
  /** Nothing more is wanted, whatever becomes of those that still run. */
  done: boolean;
}

/**
 * How to search: a pure function from the tree so far to what to fork next. It is asked anew whenever a continuation has begun or
 * ended, so it says what is missing, and keeps nothing. The root comes first in the tree, the others in the order in which they
 * were started; limits (concurrency, number, depth, cost, a reward to stop at) are held by whoever asks. To add one: a file
 * beside this one, and its line in index.ts.
 */
export type Strategy = (tree: ExploreNode[], choice: StrategyChoice) => Wish;

export function rootOf(tree: ExploreNode[]): ExploreNode {
  const [root] = tree;
  if (!root) throw new Error('a tree has a root');
  return root;
}

/** Finds the continuations from one checkpoint, in the order in which they were started. */
export function forksOf(tree: ExploreNode[]): (fork: Fork) => ExploreNode[] {
  const groups = new Map<string, ExploreNode[]>();
  for (const node of tree) {
    const key = `${node.parentRolloutId} ${node.step}`;
    const group = groups.get(key);
    if (group) group.push(node);
    else groups.set(key, [node]);
  }
  return ({ rolloutId, step }) => groups.get(`${rolloutId} ${step}`) ?? [];
}

/** The same fork so many times over. */
export const times = (count: number, fork: Fork): Fork[] =>
  Array.from({ length: Math.max(0, count) }, () => fork);
