import { WorkflowExecutionAlreadyStartedError } from '@temporalio/common';
import {
  ActivityFailure,
  CancellationScope,
  ChildWorkflowCancellationType,
  ChildWorkflowFailure,
  WorkflowIdReusePolicy,
  isCancellation,
  log,
  startChild,
} from '@temporalio/workflow';
import type { ChildWorkflowHandle, ParentClosePolicy } from '@temporalio/workflow';
import type { RolloutEnd } from '../activities/support/await-rollouts';
import type { Declared } from '../activities/records';
import type { RolloutInput } from '../contracts/rollout';
import { activitiesFor } from './activity-options';
import { rollout } from './rollout/rollout';
import { startAttributes } from './search-attributes';

/** How long a worker may hold one workflow task; one that dies in the middle of it is noticed after that. */
export const workflowTaskTimeout = '5 seconds';

export type RolloutChild = ChildWorkflowHandle<typeof rollout>;

/** Starts a rollout under its own id. Null when anybody has started one of that id before: it never runs twice. */
export async function startRollout(
  input: RolloutInput,
  parentClosePolicy: ParentClosePolicy,
): Promise<RolloutChild | null> {
  try {
    return await startChild(rollout, {
      workflowId: input.rolloutId,
      args: [input],
      parentClosePolicy,
      workflowIdReusePolicy: WorkflowIdReusePolicy.REJECT_DUPLICATE,
      cancellationType: ChildWorkflowCancellationType.WAIT_CANCELLATION_COMPLETED,
      workflowTaskTimeout,
      typedSearchAttributes: startAttributes(input),
    });
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) return null;
    throw error;
  }
}

/**
 * Waits for the end of a child. One that was cancelled has recorded its result; one that was terminated has not, and counts as
 * unscored, class infra. Neither is a failure of its parent.
 */
export async function awaitChild(child: RolloutChild, declared: Declared): Promise<RolloutEnd> {
  try {
    const { rolloutId, outcome, reward } = await child.result();
    return { rolloutId, outcome, reward };
  } catch (error) {
    if (!(error instanceof ChildWorkflowFailure)) throw error;
    const why = `its workflow failed: ${error.cause?.message ?? error.message}`;
    return recordLost({ rolloutId: child.workflowId, why, declared });
  }
}

/**
 * Waits for rollouts that run under their own ids and are no children of this run. When this workflow is cancelled, they are
 * cancelled too, and still waited for.
 */
export async function watch(
  rolloutIds: string[],
  toDeclared: (rolloutId: string) => Declared,
  ended: (end: RolloutEnd) => void,
): Promise<void> {
  const open = new Set(rolloutIds);
  const settle = (end: RolloutEnd): void => {
    open.delete(end.rolloutId);
    ended(end);
  };
  const untilEmpty = async (): Promise<void> => {
    while (open.size > 0) {
      const summary = `await ${open.size} rollouts`;
      const news = await activitiesFor('await', summary).awaitRollouts({ rolloutIds: [...open] });
      news.ended.forEach(settle);
      for (const { rolloutId, why } of news.lost) {
        settle(await recordLost({ rolloutId, why, declared: toDeclared(rolloutId) }));
      }
    }
  };
  try {
    await untilEmpty();
  } catch (error) {
    if (!isCancellation(error)) throw error;
    await CancellationScope.nonCancellable(async () => {
      await cancelAll([...open]);
      await untilEmpty();
    });
  }
}

/** Records a lost rollout where that is possible; a ledger that is away changes nothing for the siblings. */
async function recordLost(input: {
  rolloutId: string;
  why: string;
  declared: Declared;
}): Promise<RolloutEnd> {
  try {
    return await CancellationScope.nonCancellable(() =>
      activitiesFor('record', 'record: lost').recordLost(input),
    );
  } catch (error) {
    if (!(error instanceof ActivityFailure)) throw error;
    log.error('the ledger did not record a lost rollout', { rolloutId: input.rolloutId, error });
    return { rolloutId: input.rolloutId, outcome: 'unscored', reward: null };
  }
}

async function cancelAll(rolloutIds: string[]): Promise<void> {
  const activities = activitiesFor('record', 'cancel');
  await Promise.all(rolloutIds.map((workflowId) => activities.requestCancel({ workflowId })));
}
