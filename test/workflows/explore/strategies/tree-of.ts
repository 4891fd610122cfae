import type { ExploreNode, StrategyChoice } from '../../../../contracts/exploration';
import type { Strategy } from '../../../../workflows/explore/strategies/strategy';

export const choice = (more: Partial<StrategyChoice> = {}): StrategyChoice => ({
  name: 'x',
  count: 3,
  depth: 3,
  branch: 2,
  every: 1,
  at: 'last',
  ...more,
});

export const root = (checkpoints: number[], reward: number | null = null): ExploreNode => ({
  rolloutId: 'r',
  parentRolloutId: null,
  step: null,
  depth: 0,
  state: reward === null ? 'running' : 'scored',
  reward,
  checkpoints,
});

/** Whether a continuation from there gets a reward, and which steps of it can be forked. */
type Play = (fork: { rolloutId: string; step: number; n: number }) => {
  reward: number | null;
  checkpoints?: number[];
};

/**
 * Searches to the end: `atOnce` continuations run together, and the first one that was started ends first. Returns the tree.
 */
export function search(
  strategy: Strategy,
  start: ExploreNode,
  settings: { choice: StrategyChoice; play: Play; atOnce?: number },
): ExploreNode[] {
  const tree = [start];
  for (let looks = 0; looks < 10_000; looks += 1) {
    const running = tree.filter(({ state, depth }) => state === 'running' && depth > 0);
    const { fork, done } = strategy(tree, settings.choice);
    if (fork.length === 0 && running.length === 0) {
      if (!done) throw new Error('a strategy that waits for nothing');
      return tree;
    }
    const [wanted] = fork;
    if (wanted && running.length < (settings.atOnce ?? 1)) {
      const parent = tree.find(({ rolloutId }) => rolloutId === wanted.rolloutId);
      tree.push({
        rolloutId: `c${tree.length}`,
        parentRolloutId: wanted.rolloutId,
        step: wanted.step,
        depth: (parent?.depth ?? 0) + 1,
        state: 'running',
        reward: null,
        checkpoints: [],
      });
      continue;
    }
    const first = running[0];
    if (!first) throw new Error('nothing to do');
    const index = tree.indexOf(first);
    const { reward, checkpoints = [] } = settings.play({
      rolloutId: first.parentRolloutId ?? '',
      step: first.step ?? 0,
      n: index,
    });
    const state = reward === null ? 'unscored' : 'scored';
    tree[index] = { ...first, state, reward, checkpoints };
  }
  throw new Error('a strategy without an end');
}

/** `parent@step` of each continuation, in the order in which they were started. */
export const forked = (tree: ExploreNode[]): string[] =>
  tree.slice(1).map(({ parentRolloutId, step }) => `${parentRolloutId}@${step}`);
