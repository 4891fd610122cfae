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
import type { RolloutEnd } from '../activities/support/await-rollouts';
import type { BatchInput, BatchProgress, BatchResult } from '../contracts/batch';
import type { RolloutInput } from '../contracts/rollout';
import { activitiesFor } from './activity-options';
import { awaitChild, startRollout, watch } from './children';
import { failed } from './failures';
import { progressQuery } from './messages';

/** What a batch carries into its next run. Running rollouts are not children of that run: it finds them by their ids. */
export interface BatchState {
  /** How many declared rollouts were read so far. */
  next: number;
  live: string[];
  started: number;
  scored: number;
  unscored: number;
}

/** How many rollouts are read and started at once: this bounds the commands of one workflow task. */
const pageSize = 25;

/**
 * Runs the declared rollouts of a batch, at most `concurrency` of them at once. The ledger is asked first and ids are made from
 * meaning, so a batch that is run again starts nothing twice. Rollouts outlive this workflow; cancelling it cancels them, and
 * waits until each has cleaned up.
 */
export async function batch(input: BatchInput, carried?: BatchState): Promise<BatchResult> {
  const state = carried ?? { next: 0, live: [], started: 0, scored: 0, unscored: 0 };
  setHandler(progressQuery, () => progressOf(input, state));

  const window = new Window(input, state);
  try {
    if (state.live.length > 0) window.attach(state.live.slice());
    await window.fill();
  } catch (error) {
    if (!isCancellation(error)) throw error;
    // Each lane was cancelled too, and ends once its rollout has ended.
    await CancellationScope.nonCancellable(() => window.drain());
    throw new CancelledFailure('the batch was cancelled');
  }
  if (state.live.length > 0 || state.next < input.declared) {
    return continueAsNew<typeof batch>(input, state);
  }
  const { scored, unscored } = state;
  return { batchId: input.batchId, declared: input.declared, scored, unscored };
}

const progressOf = (input: BatchInput, state: BatchState): BatchProgress => ({
  batchId: input.batchId,
  declared: input.declared,
  scored: state.scored,
  unscored: state.unscored,
  started: state.started,
  running: state.live.length,
});

/** A lane is one rollout from its start to its end, or a group of rollouts that were found running. */
class Window {
  #starting = 0;
  #lanes = 0;
  #fault: unknown = null;

  constructor(
    private readonly input: BatchInput,
    private readonly state: BatchState,
  ) {}

  /** Reads and starts rollouts until all have ended or the history is full. When it returns, no start is under way. */
  async fill(): Promise<void> {
    const { input, state } = this;
    while (state.next < input.declared && !full()) {
      await condition(() => this.#free() > 0 || full() || this.#fault !== null);
      if (full() || this.#fault !== null) break;
      await this.#startPage(await this.#readPage());
    }
    await condition(
      () => this.#fault !== null || (this.#starting === 0 && (this.#lanes === 0 || full())),
    );
    if (this.#fault !== null) throw this.#fault;
  }

  /** Waits until every lane has ended. */
  async drain(): Promise<void> {
    await condition(() => this.#starting === 0 && this.#lanes === 0);
  }

  /** Watches rollouts that run already. */
  attach(rolloutIds: string[]): void {
    const declared = { ref: this.input.rolloutsRef };
    this.#lane(
      watch(
        rolloutIds,
        () => declared,
        (end) => this.#ended(end),
      ),
    );
  }

  #free(): number {
    return this.input.concurrency - this.state.live.length - this.#starting;
  }

  async #readPage(): Promise<RolloutInput[]> {
    const { input, state } = this;
    const limit = Math.min(pageSize, this.#free(), input.declared - state.next);
    const activities = activitiesFor('record', `read ${limit} from ${state.next}`);
    const page = await activities.readRollouts({
      ref: input.rolloutsRef,
      offset: state.next,
      limit,
    });
    if (page.length === 0) {
      const message = `${input.rolloutsRef} holds ${state.next} rollouts, not ${input.declared}`;
      throw failed('InvalidRequest', message);
    }
    state.next += page.length;
    return page;
  }

  async #startPage(page: RolloutInput[]): Promise<void> {
    const ids = page.map(({ rolloutId }) => rolloutId);
    const known = await activitiesFor('record', 'ask the ledger').findResults({ rolloutIds: ids });
    known.forEach((end) => this.#count(end));
    const done = new Set(known.map(({ rolloutId }) => rolloutId));
    this.state.started += page.length;
    const fresh = page.filter(({ rolloutId }) => !done.has(rolloutId));
    const running: string[] = [];
    this.#starting += fresh.length;
    const starts = fresh.map(async (input) => {
      try {
        const child = await startRollout(input, ParentClosePolicy.ABANDON);
        this.state.live.push(input.rolloutId);
        if (!child) running.push(input.rolloutId);
        else {
          const declared = { ref: this.input.rolloutsRef };
          this.#lane(awaitChild(child, declared).then((end) => this.#ended(end)));
        }
      } finally {
        this.#starting -= 1;
      }
    });
    await Promise.all(starts);
    if (running.length > 0) this.attach(running);
  }

  #lane(work: Promise<void>): void {
    this.#lanes += 1;
    const follow = async (): Promise<void> => {
      try {
        await work;
      } catch (error) {
        // A fault of this code, or a list that is gone: nobody must take the rollout for one that still runs.
        this.#fault = error;
      } finally {
        this.#lanes -= 1;
      }
    };
    void follow();
  }

  #ended(end: RolloutEnd): void {
    this.state.live = this.state.live.filter((id) => id !== end.rolloutId);
    this.#count(end);
  }

  #count({ outcome }: RolloutEnd): void {
    if (outcome === 'scored') this.state.scored += 1;
    else this.state.unscored += 1;
  }
}

const full = (): boolean => workflowInfo().continueAsNewSuggested;
