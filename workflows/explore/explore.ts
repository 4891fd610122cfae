import {
  CancellationScope,
  CancelledFailure,
  ParentClosePolicy,
  condition,
  continueAsNew,
  isCancellation,
  setHandler,
  workflowInfo,
} from '@temporalio/workflow';
import type { RolloutEnd } from '../../activities/support/await-rollouts';
import type { NodeFacts } from '../../activities/continuations';
import type { ExplorationInput, ExplorationResult } from '../../contracts/exploration';
import type { RolloutInput } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { awaitChild, startRollout, watch } from '../children';
import type { RolloutChild } from '../children';
import { idAt, initialState, placeOf, progressOf, resultOf, settle, treeOf } from './state';
import type { ExploreState } from './state';
import { failed, toTrouble } from '../failures';
import { explorationQuery } from '../messages';
import { strategies } from './strategies';
import type { Fork, Strategy } from './strategies/strategy';

/** Sandboxes between a continuation and its first ancestor's, whoever started those. */
const maxLineage = 100;

/**
 * A tree of continuations of one rollout, grown by a strategy: each a rollout of its own, with sandbox, key, seed and what was left
 * of the budget at its checkpoint. It is declared before it starts, and ids are made from meaning, so that nothing starts twice,
 * whatever dies. A reward to stop at cancels those that still run; so does cancelling the exploration, and all are waited for.
 * Continuations outlive this workflow when it is terminated.
 */
export async function explore(
  input: ExplorationInput,
  carried?: ExploreState,
): Promise<ExplorationResult> {
  const state = carried ?? initialState();
  setHandler(explorationQuery, () => progressOf(input, state));

  const search = new Search(input, state, strategyOf(input));
  let end: 'continue' | 'ended';
  try {
    end = await search.run();
  } catch (error) {
    await CancellationScope.nonCancellable(() => search.stop());
    if (!isCancellation(error)) throw faultOf(error);
    state.ended = 'cancelled';
    throw new CancelledFailure('the exploration was cancelled');
  }
  if (end === 'continue') return continueAsNew<typeof explore>(input, state);
  return resultOf(input, state);
}

function strategyOf({ strategy: { name } }: ExplorationInput): Strategy {
  const strategy = Object.hasOwn(strategies, name) ? strategies[name] : undefined;
  if (strategy) return strategy;
  const message = `there is no strategy ${name}; there are ${Object.keys(strategies).join(', ')}`;
  throw failed('InvalidRequest', message);
}

/** A lane is one continuation from its start until what became of it is known, or a group that was found running. */
class Search {
  readonly #lanes = new CancellationScope();
  #running = 0;
  #starting = 0;
  #changes = 0;
  #fault: unknown = null;

  constructor(
    private readonly input: ExplorationInput,
    private readonly state: ExploreState,
    private readonly strategy: Strategy,
  ) {}

  /** Until it has ended and nothing runs any more, or the history is full. No start is under way when it returns. */
  async run(): Promise<'continue' | 'ended'> {
    this.#attach();
    // The run before found what is good enough, and had no time left to stop the others.
    if (this.state.ended !== null) this.#lanes.cancel();
    while (this.state.ended === null && !full()) {
      const seen = this.#changes;
      await this.#grow();
      if (this.#fault !== null) throw this.#fault;
      if (this.state.ended === null) await condition(() => this.#changes !== seen || full());
    }
    // A start that is under way would be lost with this run.
    await condition(() => this.#starting === 0);
    const end = this.state.ended === null ? 'continue' : 'ended';
    if (end === 'ended') await condition(() => this.#running === 0);
    if (this.#fault !== null) throw this.#fault;
    return end;
  }

  /** Cancels what runs, and waits for it. */
  async stop(): Promise<void> {
    this.#lanes.cancel();
    await condition(() => this.#running === 0);
  }

  /** Starts what the strategy wants and limits allow, until one of them has no more. */
  async #grow(): Promise<void> {
    const { input, state } = this;
    while (state.ended === null && this.#fault === null && !full()) {
      const tree = treeOf(input, state);
      const running = tree.filter((node) => node.state === 'running' && node.depth > 0).length;
      const { fork } = this.strategy(tree, input.strategy);
      const depthOf = (rolloutId: string): number =>
        (tree[placeOf(input, rolloutId)]?.depth ?? 0) + 1;
      const allowed = this.#hasBudget()
        ? fork.filter(({ rolloutId }) => depthOf(rolloutId) <= this.#maxDepth())
        : [];
      if (allowed.length === 0) {
        if (running === 0) state.ended = fork.length === 0 ? 'done' : 'limit';
        return;
      }
      const free = Math.min(
        input.limits.concurrency - running,
        input.limits.maxContinuations - state.nodes.length,
      );
      if (free <= 0) return;
      await this.#start(allowed.slice(0, free));
    }
  }

  #maxDepth(): number {
    const { limits, root } = this.input;
    return Math.min(limits.maxDepth, maxLineage - (root.from?.depth ?? 0));
  }

  /** What still runs may take it past a limit, and is let go on: each has a budget of its own. */
  #hasBudget(): boolean {
    const { limits } = this.input;
    const { nodes, tokens, costUsd } = this.state;
    if (nodes.length >= limits.maxContinuations) return false;
    if (limits.maxTokens !== undefined && tokens >= limits.maxTokens) return false;
    return limits.maxCostUsd === undefined || costUsd < limits.maxCostUsd;
  }

  /** Also when it is cancelled meanwhile: what was declared must have an end. */
  async #start(wanted: Fork[]): Promise<void> {
    const { input, state } = this;
    const forks = wanted.map(({ rolloutId, step }) => {
      if (placeOf(input, rolloutId) < 0) throw notInTree(input, rolloutId);
      const n = state.nodes.push([placeOf(input, rolloutId), step, 'running', null, []]);
      return {
        rolloutId: idAt(input, n),
        index: n,
        seed: input.seed + n,
        parentRolloutId: rolloutId,
        step,
      };
    });
    const inputs = await CancellationScope.nonCancellable(() =>
      activitiesFor('record', `declare ${forks.length}`).declareContinuations({
        root: input.root,
        forks,
      }),
    );
    for (const one of inputs) this.#lane(() => this.#follow(one));
  }

  /** Those that an earlier run has started are found by their ids. */
  #attach(): void {
    const running = treeOf(this.input, this.state)
      .filter((node) => node.state === 'running' && node.depth > 0)
      .map(({ rolloutId }) => rolloutId);
    if (running.length === 0) return;
    this.#lane(async () => {
      const ends: Promise<void>[] = [];
      await watch(
        running,
        () => 'continuation',
        (end) => ends.push(this.#ended(end)),
      );
      await Promise.all(ends);
    });
  }

  #lane(work: () => Promise<void>): void {
    this.#running += 1;
    const follow = async (): Promise<void> => {
      try {
        await this.#lanes.run(work);
      } catch (error) {
        // A fault of this code: it must not pass for a continuation that goes on.
        this.#fault = error;
      } finally {
        this.#running -= 1;
        this.#changes += 1;
      }
    };
    void follow();
  }

  async #follow(input: RolloutInput): Promise<void> {
    const { rolloutId } = input;
    let end: RolloutEnd = { rolloutId, outcome: 'unscored', reward: null };
    const found = (): Promise<void> =>
      watch(
        [rolloutId],
        () => ({ input }),
        (known) => (end = known),
      );
    try {
      const child = await this.#begin(input);
      if (child) end = await awaitChild(child, { input });
      else await found();
    } catch (error) {
      if (!isCancellation(error)) throw error;
      // Cancelled while it was being started: whether it has begun is Temporal's to say.
      await CancellationScope.nonCancellable(async () => {
        await activitiesFor('record', 'cancel').requestCancel({ workflowId: rolloutId });
        await found();
      });
    }
    await this.#ended(end);
  }

  async #begin(input: RolloutInput): Promise<RolloutChild | null> {
    this.#starting += 1;
    try {
      return await startRollout(input, ParentClosePolicy.ABANDON);
    } finally {
      this.#starting -= 1;
    }
  }

  async #ended(end: RolloutEnd): Promise<void> {
    const { input, state } = this;
    const { rolloutId } = end;
    const [facts] = await CancellationScope.nonCancellable(() =>
      activitiesFor('record', 'read what became of it').readNodes({
        taskRef: input.root.taskRef,
        rolloutIds: [rolloutId],
      }),
    );
    settle(state, placeOf(input, rolloutId), facts ?? unknown(end));
    this.#changes += 1;
    const { stopAtReward } = input.limits;
    if (stopAtReward === undefined || end.reward === null || end.reward < stopAtReward) return;
    state.ended ??= 'stop_reward';
    this.#lanes.cancel();
  }
}

/** Of a rollout whose result the ledger did not take. */
const unknown = ({ rolloutId, outcome, reward }: RolloutEnd): NodeFacts => ({
  rolloutId,
  state: outcome,
  reward,
  checkpoints: [],
  modelCalls: 0,
  tokens: 0,
  costUsd: 0,
});

/** What ends an exploration says so itself, not in the cause of a cause. */
function faultOf(error: unknown): Error {
  const { failure, details } = toTrouble(error, 'create');
  return failed(failure.type, failure.message, details);
}

function notInTree({ strategy: { name } }: ExplorationInput, rolloutId: string): Error {
  const message = `strategy ${name} forks ${rolloutId}, which is not in the tree`;
  return failed('InvalidRequest', message);
}

const full = (): boolean => workflowInfo().continueAsNewSuggested;
