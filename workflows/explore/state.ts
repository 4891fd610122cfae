import type { NodeFacts } from '../../activities/continuations';
import type {
  ExplorationInput,
  ExplorationResult,
  ExploreNode,
  ExplorationProgress,
} from '../../contracts/exploration';
import { continuationId } from '../continuation-ids';

/** Steps as runs of `from`, `to` and the distance between two: a checkpoint before each step is one run, however many they are. */
type Runs = [from: number, to: number, by: number][];

/** A continuation in as few bytes as it can be: ten thousand of them are carried into the next run. Its id follows from its place. */
export type KeptNode = [
  /** Place of its parent: 0 for the root. */
  parent: number,
  step: number,
  state: ExploreNode['state'],
  reward: number | null,
  checkpoints: Runs,
];

/** What an exploration carries into its next run. */
export interface ExploreState {
  /** The n-th continuation is at n - 1. */
  nodes: KeptNode[];
  modelCalls: number;
  tokens: number;
  costUsd: number;
  ended: ExplorationResult['ended'] | null;
}

export const initialState = (): ExploreState => ({
  nodes: [],
  modelCalls: 0,
  tokens: 0,
  costUsd: 0,
  ended: null,
});

/** Through a query or a result goes no more than so many nodes; the ledger has all of them. */
const toldNodes = 4000;

/** Checkpoints that a query tells, over all nodes: each has its last ones. */
const toldSteps = 50_000;

/** The id of the root at place 0, and of the n-th continuation at n. */
export const idAt = ({ root, rootNode, exploreId }: ExplorationInput, place: number): string =>
  place === 0 ? rootNode.rolloutId : continuationId(root.rolloutId, exploreId, place);

export function placeOf(input: ExplorationInput, rolloutId: string): number {
  if (rolloutId === input.rootNode.rolloutId) return 0;
  const place = Number(rolloutId.slice(rolloutId.lastIndexOf('.') + 1));
  return rolloutId === idAt(input, place) ? place : -1;
}

/** The tree as strategies see it. */
export function treeOf(input: ExplorationInput, { nodes }: ExploreState): ExploreNode[] {
  const tree: ExploreNode[] = [{ ...input.rootNode, parentRolloutId: null, step: null, depth: 0 }];
  for (const [index, kept] of nodes.entries()) {
    const node = seen.get(kept) ?? nodeOf(input, kept, { n: index + 1, parents: tree });
    seen.set(kept, node);
    tree.push(node);
  }
  return tree;
}

/** A tree is looked at whenever something in it has changed, and most of it has not. */
const seen = new WeakMap<KeptNode, ExploreNode>();

const nodeOf = (
  input: ExplorationInput,
  [parent, step, state, reward, checkpoints]: KeptNode,
  { n, parents }: { n: number; parents: ExploreNode[] },
): ExploreNode => ({
  rolloutId: idAt(input, n),
  parentRolloutId: idAt(input, parent),
  step,
  depth: (parents[parent]?.depth ?? 0) + 1,
  state,
  reward,
  checkpoints: stepsOf(checkpoints),
});

/** Takes in what has become of a continuation. */
export function settle(state: ExploreState, place: number, facts: NodeFacts): void {
  const node = state.nodes[place - 1];
  if (!node || node[2] !== 'running') return;
  state.nodes[place - 1] = [node[0], node[1], facts.state, facts.reward, runsOf(facts.checkpoints)];
  state.modelCalls += facts.modelCalls;
  state.tokens += facts.tokens;
  state.costUsd += facts.costUsd;
}

export function progressOf(input: ExplorationInput, state: ExploreState): ExplorationProgress {
  const [root, ...rest] = treeOf(input, state);
  const { modelCalls, tokens, costUsd, ended } = state;
  const told = rest.slice(-toldNodes);
  const steps = Math.floor(toldSteps / Math.max(1, told.length));
  const nodes = told.map((node) => ({ ...node, checkpoints: node.checkpoints.slice(-steps) }));
  return {
    exploreId: input.exploreId,
    nodes: root ? [root, ...nodes] : [],
    more: Math.max(0, rest.length - toldNodes),
    running: rest.filter((node) => node.state === 'running').length,
    modelCalls,
    tokens,
    costUsd,
    ended,
  };
}

export function resultOf(input: ExplorationInput, state: ExploreState): ExplorationResult {
  const nodes = treeOf(input, state).slice(1);
  const scored = nodes.filter((node) => node.state === 'scored');
  let best: ExplorationResult['best'] = null;
  for (const { rolloutId, reward } of scored) {
    if (reward !== null && (!best || reward > best.reward)) best = { rolloutId, reward };
  }
  return {
    exploreId: input.exploreId,
    value: meanOf(scored),
    best,
    values: valuesOf(input, nodes),
    scored: scored.length,
    ended: state.ended ?? 'done',
    modelCalls: state.modelCalls,
    rollouts: nodes.slice(-toldNodes).map(({ rolloutId, parentRolloutId, step, ...node }) => ({
      rolloutId,
      parentRolloutId,
      step,
      outcome: node.state === 'scored' ? 'scored' : 'unscored',
      reward: node.reward,
    })),
  };
}

/** Of each step of the root that was forked: all that came of it, forks of forks too. */
function valuesOf(input: ExplorationInput, nodes: ExploreNode[]): ExplorationResult['values'] {
  const rootSteps = new Map<string, number>();
  const visits = new Map<number, ExploreNode[]>();
  for (const node of nodes) {
    const { rolloutId, parentRolloutId, step } = node;
    const ofRoot = parentRolloutId === input.rootNode.rolloutId;
    const rootStep = ofRoot ? step : rootSteps.get(parentRolloutId ?? '');
    if (rootStep === null || rootStep === undefined) continue;
    rootSteps.set(rolloutId, rootStep);
    visits.set(rootStep, [...(visits.get(rootStep) ?? []), node]);
  }
  return [...visits]
    .sort(([a], [b]) => a - b)
    .map(([step, found]) => {
      const scored = found.filter((node) => node.state === 'scored');
      return { step, value: meanOf(scored), visits: found.length, scored: scored.length };
    });
}

function meanOf(nodes: ExploreNode[]): number | null {
  const rewards = nodes.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  if (rewards.length === 0) return null;
  return rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
}

export function runsOf(steps: number[]): Runs {
  const runs: Runs = [];
  for (const step of steps) {
    const last = runs.at(-1);
    const by = last ? step - last[1] : 0;
    if (last && (last[0] === last[1] || last[2] === by))
      runs[runs.length - 1] = [last[0], step, by];
    else runs.push([step, step, 1]);
  }
  return runs;
}

export function stepsOf(runs: Runs): number[] {
  const steps: number[] = [];
  for (const [from, to, by] of runs) for (let step = from; step <= to; step += by) steps.push(step);
  return steps;
}
