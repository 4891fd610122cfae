import {
  WorkflowExecutionAlreadyStartedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import type { WorkflowHandle } from '@temporalio/client';
import type { BatchInput, BatchProgress } from '../../contracts/batch';
import type { Checkpoint, RolloutInput, RolloutStatus } from '../../contracts/rollout';
import { KeyConflictError, toDeclared } from '../../stores/ledger';
import type { BatchRow } from '../../stores/ledger';
import {
  cancelSignal,
  forkUpdate,
  messageUpdate,
  pauseUpdate,
  progressQuery,
  resumeUpdate,
  statusQuery,
} from '../../workflows/messages';
import { NoAnswerError, nullIfGone, queryWorkflow, readWorkflowState } from '../../temporal/states';
import type { Rollouts } from './connect';
import { reasonOf, UsageError, UserError } from '../errors';
import type { BatchPlan } from './plan';
import { workflowTaskTimeout } from '../../workflows/children';

export const batchWorkflowId = (batchId: string): string => `batch/${batchId}`;

/** Where the blob store has a batch's row, whatever becomes of the ledger. */
export const batchName = (batchId: string): string => `batches/${batchId}`;

/**
 * Declares and starts a batch, or attaches to it when it was started before. Idempotent: rollouts that have a result in the
 * ledger are not started again, whatever Temporal still remembers, and a batch that runs is left as it is.
 * @throws UsageError when the batch was declared before with other contents
 */
export async function startBatch(
  rollouts: Rollouts,
  plan: BatchPlan,
  concurrency: number,
): Promise<{ knownBefore: boolean }> {
  const { ledger, blobs } = rollouts;
  const knownBefore = (await ledger.batch(plan.batchId)) !== null;
  const { ref: rolloutsRef } = await blobs.put(Buffer.from(JSON.stringify(plan.rollouts)));
  const batch: BatchRow = {
    batchId: plan.batchId,
    taskset: plan.taskset,
    declared: plan.rollouts.length,
    rolloutsRef,
    createdAt: new Date().toISOString(),
  };
  try {
    await ledger.declareBatch(batch, plan.rollouts.map(toDeclared));
  } catch (error) {
    if (!(error instanceof KeyConflictError)) throw error;
    throw new UsageError(
      `${error.message}\nGive it another name with --batch, or leave --batch out`,
    );
  }
  // What a lost ledger is rebuilt from.
  await blobs.putIfAbsent(batchName(plan.batchId), Buffer.from(JSON.stringify(batch)));
  const ended = new Set(
    (await ledger.results(plan.rollouts.map((r) => r.rolloutId))).map((r) => r.rolloutId),
  );
  const open = plan.rollouts.filter(({ rolloutId }) => !ended.has(rolloutId));
  if (open.length === 0) return { knownBefore };
  const { ref } = await blobs.put(Buffer.from(JSON.stringify(open)));
  const input: BatchInput = {
    batchId: plan.batchId,
    rolloutsRef: ref,
    declared: open.length,
    concurrency: Math.min(concurrency, open.length),
  };
  await startOnce(rollouts, 'batch', batchWorkflowId(plan.batchId), input);
  return { knownBefore };
}

/** Declares and starts one rollout by itself, outside any batch workflow. Idempotent. */
export async function startRollout(rollouts: Rollouts, input: RolloutInput): Promise<void> {
  await rollouts.ledger.declareRollouts([toDeclared(input)]);
  const known = await rollouts.ledger.rollout(input.rolloutId);
  if (known?.result) return;
  await startOnce(rollouts, 'rollout', input.rolloutId, input);
}

/** How a batch ends without its rollouts: those go on, and some may never have begun. */
const cutShort = ['TERMINATED', 'FAILED', 'TIMED_OUT'];

/**
 * Starts a workflow unless one of its id runs or ran. A batch that was cut short is begun anew: it takes up its rollouts by
 * their ids, so none runs twice.
 */
export async function startOnce(
  rollouts: Rollouts,
  workflow: 'batch' | 'rollout' | 'explore' | 'regrade',
  workflowId: string,
  input: object,
): Promise<void> {
  const anew = workflow === 'batch' && (await wasCutShort(rollouts, workflowId));
  try {
    await rollouts.temporal.workflow.start(workflow, {
      workflowId,
      taskQueue: rollouts.taskQueue,
      args: [input],
      workflowTaskTimeout,
      workflowIdReusePolicy: anew ? 'ALLOW_DUPLICATE_FAILED_ONLY' : 'REJECT_DUPLICATE',
      workflowIdConflictPolicy: 'USE_EXISTING',
    });
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
  }
}

async function wasCutShort(rollouts: Rollouts, workflowId: string): Promise<boolean> {
  return cutShort.includes(await readWorkflowState(rollouts.temporal, workflowId));
}

/** How long a worker may take to answer a query. */
const answerMs = 10_000;

/** Reads where a rollout is; null when Temporal no longer knows it. @throws NoAnswerError when no worker tells in time */
export function readRolloutStatus(
  { temporal }: Pick<Rollouts, 'temporal'>,
  rolloutId: string,
  withinMs = answerMs,
): Promise<RolloutStatus | null> {
  return queryWorkflow(temporal, rolloutId, statusQuery, withinMs);
}

/** The same of a rollout that has no result. @throws UserError when nobody tells where it is */
export async function readOpenStatus(
  rollouts: Pick<Rollouts, 'temporal'>,
  rolloutId: string,
): Promise<RolloutStatus> {
  let status: RolloutStatus | null;
  try {
    status = await readRolloutStatus(rollouts, rolloutId);
  } catch (error) {
    if (!(error instanceof NoAnswerError)) throw error;
    throw new UserError(`${error.message}\nIt has not ended; is a worker up? See: rollouts status`);
  }
  if (status) return status;
  throw new UserError(
    `${rolloutId} has no result, and Temporal does not know it; see: rollouts doctor`,
  );
}

/** Reads the counts of a batch; null when Temporal no longer knows it. @throws NoAnswerError when no worker tells in time */
export function readBatchProgress(
  { temporal }: Pick<Rollouts, 'temporal'>,
  batchId: string,
  withinMs = answerMs,
): Promise<BatchProgress | null> {
  return queryWorkflow(temporal, batchWorkflowId(batchId), progressQuery, withinMs);
}

/** Cancels a batch: what runs is cancelled, its sandboxes deleted, and what has not begun never does. Asking twice is asking once. */
export async function cancelBatch(rollouts: Rollouts, batchId: string): Promise<void> {
  await nullIfGone(handle(rollouts, batchWorkflowId(batchId)).cancel());
}

/** Cancels what still runs of an exploration. Asking twice is asking once. */
export async function cancelExploration(rollouts: Rollouts, exploreId: string): Promise<void> {
  await nullIfGone(handle(rollouts, exploreId).cancel());
}

/**
 * Cancels a rollout. Returns when it has been told, not when it has ended.
 * @throws UserError when it does not run
 */
export async function cancelRollout(rollouts: Rollouts, rolloutId: string): Promise<void> {
  await running(rollouts, rolloutId, (workflow) => workflow.signal(cancelSignal));
}

export async function pauseRollout(rollouts: Rollouts, rolloutId: string): Promise<RolloutStatus> {
  return running(rollouts, rolloutId, (workflow) => workflow.executeUpdate(pauseUpdate));
}

export async function resumeRollout(rollouts: Rollouts, rolloutId: string): Promise<RolloutStatus> {
  return running(rollouts, rolloutId, (workflow) => workflow.executeUpdate(resumeUpdate));
}

/** Returns how many words wait to be shown to the agent. */
export async function sendMessage(
  rollouts: Rollouts,
  rolloutId: string,
  text: string,
): Promise<number> {
  return running(rollouts, rolloutId, (workflow) =>
    workflow.executeUpdate(messageUpdate, { args: [{ text }] }),
  );
}

/** A checkpoint of a running rollout, taken at its next moment between two steps; without a version where none holds its world. */
export async function takeCheckpoint(rollouts: Rollouts, rolloutId: string): Promise<Checkpoint> {
  return running(rollouts, rolloutId, (workflow) => workflow.executeUpdate(forkUpdate));
}

export function handle(rollouts: Rollouts, workflowId: string): WorkflowHandle {
  return rollouts.temporal.workflow.getHandle(workflowId);
}

async function running<T>(
  rollouts: Rollouts,
  rolloutId: string,
  act: (workflow: WorkflowHandle) => Promise<T>,
): Promise<T> {
  try {
    return await act(handle(rollouts, rolloutId));
  } catch (error) {
    if (error instanceof WorkflowUpdateFailedError) {
      throw new UserError(`${rolloutId} refuses: ${reasonOf(error.cause)}`);
    }
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    const known = await rollouts.ledger.rollout(rolloutId);
    if (!known) throw new UserError(`there is no rollout ${rolloutId}; see: rollouts list`);
    throw new UserError(
      known.result
        ? `${rolloutId} has ended (${known.result.outcome}); see: rollouts show ${rolloutId}`
        : `${rolloutId} does not run: it was declared and never started, or Temporal has lost it; see: rollouts doctor`,
    );
  }
}
