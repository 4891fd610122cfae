import type { ExploreNode, StrategyChoice } from '../../../contracts/exploration';
import { forksOf, rootOf, times } from './strategy';
import type { Fork, Strategy } from './strategy';
import { beginning, pointsOf, probesOf } from './uncertain';

/**
 * Tree search: `depth` levels, one after the other, each of `branch` continuations from one checkpoint of the best rollout that is
 * known by then. Every continuation goes on to its end and is verified, so its reward tells what its first steps are worth.
 *
 * Where a level forks the best rollout is decided by `at`.
 * - A step (or `uncertain`, which finds one by probes): forward. The first level forks the root there; each level after it forks
 *   the best at its first checkpoint `every` steps further on. What is best is kept up to there, and its ends are tried anew: as
 *   in nested rollouts. For rewards that grow on the way.
 * - `last`: backward. The first level forks the root's last checkpoint. A level that brings nothing better goes `every` checkpoints
 *   further back on the line of the best, also into the part that it shares with its parents; one that does begins at the last
 *   checkpoint of its best. Undoing as little as will do: for rewards that are all or nothing.
 *
 * The best is the one with the largest reward; among equals a continuation before the root, the deepest level, then the first
 * started. The search ends early where the line of the best has no more checkpoints that way.
 */
export const tree: Strategy = (nodes, choice) => {
  const begun = beginning(nodes, choice);
  if ('wait' in begun) return begun.wait;
  const { start } = begun;
  if (!start) return { fork: [], done: true };
  const search = searched(nodes, choice);
  const levels = levelsOf(search);
  const current = levels.at(-1);
  if (!current) return { fork: times(choice.branch, start), done: false };
  const level = forksOf(search)(current);
  const missing = choice.branch - level.length;
  if (missing > 0) return { fork: times(missing, current), done: false };
  if (levels.length >= choice.depth) return { fork: [], done: true };
  if (level.some(({ state }) => state === 'running')) return { fork: [], done: false };
  const next =
    choice.at === 'last' ? backward(search, choice, levels) : forward(search, choice, levels);
  return next ? { fork: times(choice.branch, next), done: false } : { fork: [], done: true };
};

/** Without the probes that found the beginning. */
function searched(nodes: ExploreNode[], choice: StrategyChoice): ExploreNode[] {
  if (choice.at !== 'uncertain') return nodes;
  const probes = new Set(probesOf(nodes, pointsOf(nodes, choice)));
  return nodes.filter((node) => !probes.has(node));
}

/** The checkpoints that were forked, in the order in which they were. */
function levelsOf(nodes: ExploreNode[]): Fork[] {
  const levels: Fork[] = [];
  for (const { parentRolloutId, step } of nodes.slice(1)) {
    if (parentRolloutId === null || step === null) continue;
    if (!levels.some((known) => known.rolloutId === parentRolloutId && known.step === step)) {
      levels.push({ rolloutId: parentRolloutId, step });
    }
  }
  return levels;
}

function bestOf(nodes: ExploreNode[], levels: Fork[]): ExploreNode {
  const levelOf = ({ parentRolloutId, step }: ExploreNode): number =>
    levels.findIndex((at) => at.rolloutId === parentRolloutId && at.step === step);
  let best = rootOf(nodes);
  for (const node of nodes.slice(1)) {
    if (node.reward === null) continue;
    const more = node.reward - (best.reward ?? -Infinity);
    if (more > 0 || (more === 0 && levelOf(node) > levelOf(best))) best = node;
  }
  return best;
}

function forward(nodes: ExploreNode[], { every }: StrategyChoice, levels: Fork[]): Fork | null {
  const { rolloutId, checkpoints } = bestOf(nodes, levels);
  const from = (levels.at(-1)?.step ?? 0) + every;
  const step = checkpoints.find((one) => one >= from);
  return step === undefined ? null : { rolloutId, step };
}

function backward(nodes: ExploreNode[], { every }: StrategyChoice, levels: Fork[]): Fork | null {
  const line = lineOf(nodes, bestOf(nodes, levels));
  const tried = ({ rolloutId, step }: Fork): boolean =>
    levels.some((known) => known.rolloutId === rolloutId && known.step === step);
  return line.find((point, index) => index % every === 0 && !tried(point)) ?? null;
}

/**
 * The checkpoints on the way to a rollout, the last one first. The checkpoint before its own first step is its parent's too, and
 * named as that.
 */
function lineOf(nodes: ExploreNode[], leaf: ExploreNode): Fork[] {
  const line: Fork[] = [];
  let node: ExploreNode | undefined = leaf;
  for (let below = Infinity; node;) {
    const { rolloutId, parentRolloutId, checkpoints, step: first }: ExploreNode = node;
    const own = checkpoints.filter((step) => step <= below && step > (first ?? 0));
    line.push(...own.reverse().map((step) => ({ rolloutId, step })));
    below = first ?? 0;
    node = nodes.find((one) => one.rolloutId === parentRolloutId);
  }
  return line;
}
