import { setTimeout as sleep } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import { WorkflowNotFoundError } from '@temporalio/client';
import type { Client, WorkflowExecutionStatusName } from '@temporalio/client';
import { BatchRollouts } from '../contracts/batch';
import type { RolloutInput, RolloutResult } from '../contracts/rollout';
import { activity } from './heartbeat';
import { lostResult } from './lost-result';
import type { Parts } from './parts';

/** How a rollout ended, in as few bytes as a batch needs. */
export type RolloutEnd = Pick<RolloutResult, 'rolloutId' | 'outcome' | 'reward'>;

export interface AwaitOutput {
  ended: RolloutEnd[];
  /** Closed, or never there, without a result in the ledger: somebody terminated them. */
  lost: { rolloutId: string; why: string }[];
}

const pollMs = 1000;
/** How many polls of the ledger between two looks at Temporal itself. */
const pollsPerLook = 10;

export function recordActivities({ ledger, documents }: Parts) {
  const endsOf = async (rolloutIds: string[]): Promise<RolloutEnd[]> =>
    (await ledger.results(rolloutIds)).map(endOf);

  return {
    /** Records a rollout's result. Idempotent: the first recorded one stays. */
    recordResult: activity(async (result: RolloutResult): Promise<RolloutEnd> => {
      return endOf(await ledger.recordResult(result));
    }),

    /** Records that a rollout ended without telling a result: unscored, class infra. Idempotent. */
    recordLost: activity(
      async ({ input, why }: { input: RolloutInput; why: string }): Promise<RolloutEnd> => {
        return endOf(await ledger.recordResult(lostResult(input, why, new Date())));
      },
    ),

    /** The recorded ends among these rollouts: Temporal forgets after its retention, the ledger does not. */
    findResults: activity(({ rolloutIds }: { rolloutIds: string[] }) => endsOf(rolloutIds)),

    /** A page of a batch's declared rollouts. */
    readRollouts: activity(
      async (page: { ref: string; offset: number; limit: number }): Promise<RolloutInput[]> => {
        const rollouts = await documents.get(BatchRollouts, page.ref);
        return rollouts.slice(page.offset, page.offset + page.limit);
      },
    ),

    /** Waits until at least one of these rollouts has ended, however it did. */
    awaitRollouts: activity(
      async (
        { rolloutIds }: { rolloutIds: string[] },
        signal: AbortSignal,
      ): Promise<AwaitOutput> => {
        for (let poll = 0; ; poll += 1) {
          const ended = await endsOf(rolloutIds);
          if (ended.length > 0) return { ended, lost: [] };
          if (poll % pollsPerLook === 0) {
            const lost = await closedAmong(Context.current().client, rolloutIds, signal);
            // The result may have been recorded while we looked.
            const late = await endsOf(lost.map(({ rolloutId }) => rolloutId));
            const known = new Set(late.map(({ rolloutId }) => rolloutId));
            const gone = lost.filter(({ rolloutId }) => !known.has(rolloutId));
            if (late.length + gone.length > 0) return { ended: late, lost: gone };
          }
          await sleep(pollMs, undefined, { signal });
        }
      },
    ),

    /** Asks Temporal to cancel a workflow. Idempotent; one that is closed or gone is cancelled enough. */
    requestCancel: activity(async ({ workflowId }: { workflowId: string }): Promise<void> => {
      try {
        await Context.current().client.workflow.getHandle(workflowId).cancel();
      } catch (error) {
        if (!(error instanceof WorkflowNotFoundError)) throw error;
      }
    }),
  };
}

const endOf = ({ rolloutId, outcome, reward }: RolloutResult): RolloutEnd => ({
  rolloutId,
  outcome,
  reward,
});

async function closedAmong(
  client: Client,
  rolloutIds: string[],
  signal: AbortSignal,
): Promise<AwaitOutput['lost']> {
  const lost: AwaitOutput['lost'] = [];
  for (const rolloutId of rolloutIds) {
    signal.throwIfAborted();
    const status = await statusOf(client, rolloutId);
    if (status !== 'RUNNING') lost.push({ rolloutId, why: `its workflow is ${status}` });
  }
  return lost;
}

async function statusOf(
  client: Client,
  workflowId: string,
): Promise<WorkflowExecutionStatusName | 'NOT_FOUND'> {
  try {
    return (await client.workflow.getHandle(workflowId).describe()).status.name;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return 'NOT_FOUND';
    throw error;
  }
}
