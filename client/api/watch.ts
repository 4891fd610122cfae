import { setTimeout as sleep } from 'node:timers/promises';
import type { BatchReport } from '../../contracts/batch';
import type { Failure, RolloutResult } from '../../contracts/rollout';
import { newFailure } from '../../contracts/failures';
import type { RolloutRow } from '../../stores/ledger';
import { NoAnswerError, readWorkflowState } from '../../temporal/states';
import type { Rollouts } from './connect';
import { UserError } from '../errors';
import { toBatchReport } from './batch-report';
import { batchWorkflowId, readBatchProgress } from './rollouts';

export interface WatchEvents {
  /** A rollout has a result. `ended` counts those so far, this one included. */
  onResult(result: RolloutResult, counts: { ended: number; declared: number }): void;
  /** Nothing has ended for a while. `running` is null when no worker answers. */
  onQuiet(counts: { running: number | null; ended: number; declared: number }): void;
}

const pollMs = 500;
const quietMs = 15_000;

/**
 * Follows a batch until all its rollouts have a result, or its workflow has ended. Only reads, so watching twice or not at
 * all changes nothing.
 * @throws UserError when there is no such batch
 */
export async function watchBatch(
  rollouts: Rollouts,
  batchId: string,
  events: WatchEvents,
): Promise<BatchReport> {
  if (!(await rollouts.ledger.batch(batchId))) {
    throw new UserError(`there is no batch ${batchId}; see: rollouts list`);
  }
  const told = new Set<string>();
  let lastNews = Date.now();
  for (;;) {
    // Asked before the results are read: what a batch that has ended recorded is then all there.
    const over = (await readBatchState(rollouts, batchId)) !== 'RUNNING';
    const rows = await declaredRows(rollouts, batchId);
    const ended = rows.filter(({ result }) => result !== null).length;
    for (const { result } of rows) {
      if (!result || told.has(result.rolloutId)) continue;
      told.add(result.rolloutId);
      events.onResult(result, { ended: told.size, declared: rows.length });
      lastNews = Date.now();
    }
    if (over || ended === rows.length) return batchReport(rollouts, batchId);
    if (Date.now() - lastNews > quietMs) {
      const running = await runningNow(rollouts, batchId);
      events.onQuiet({ running, ended, declared: rows.length });
      lastNews = Date.now();
    }
    await sleep(pollMs);
  }
}

/** Null when no worker answers. */
async function runningNow(rollouts: Rollouts, batchId: string): Promise<number | null> {
  try {
    return (await readBatchProgress(rollouts, batchId, 5000))?.running ?? 0;
  } catch (error) {
    if (error instanceof NoAnswerError) return null;
    throw error;
  }
}

/** What a batch has come to so far. */
export async function batchReport(rollouts: Rollouts, batchId: string): Promise<BatchReport> {
  const rows = await declaredRows(rollouts, batchId);
  const cancelled = (await readBatchState(rollouts, batchId)) === 'CANCELLED';
  return toBatchReport(batchId, rows, () => withoutResult(cancelled));
}

/** Continuations belong to a batch too, and are not what it declared. */
async function declaredRows(rollouts: Rollouts, batchId: string): Promise<RolloutRow[]> {
  const rows = await rollouts.ledger.rollouts({ batchId });
  return rows.filter(({ parentRolloutId }) => parentRolloutId === null);
}

function withoutResult(cancelled: boolean): Failure {
  return cancelled
    ? newFailure('Cancelled', 'create', 'the batch was cancelled')
    : newFailure('NoResult', 'create', 'it has no result; see: rollouts doctor');
}

const readBatchState = ({ temporal }: Rollouts, batchId: string): Promise<string> =>
  readWorkflowState(temporal, batchWorkflowId(batchId));
