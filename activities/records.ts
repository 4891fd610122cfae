import { Context } from '@temporalio/activity';
import { BatchRollouts } from '../contracts/batch';
import { RolloutInput } from '../contracts/rollout';
import type { RolloutResult } from '../contracts/rollout';
import { RolloutError } from '../rollouts/errors';
import { inputName } from '../rollouts/inputs';
import { nullIfGone } from '../temporal/states';
import { awaitAny, endOf } from './support/await-rollouts';
import type { AwaitOutput, RolloutEnd } from './support/await-rollouts';
import { activity } from './support/heartbeat';
import { lostResult } from '../rollouts/empty-result';
import type { Parts } from './support/parts';

/** Where a lost rollout's declaration is: at hand, in its batch's list, or kept under its name as a continuation's is. */
export type Declared = { input: RolloutInput } | { ref: string } | 'continuation';

/** Of one page of rollouts: it goes through a history. At least one is read, whatever its size. */
const pageBytes = 256 * 1024;

export function recordActivities(parts: Parts) {
  const { ledger, documents } = parts;

  async function readDeclared(declared: Declared, rolloutId: string): Promise<RolloutInput> {
    if (declared === 'continuation') {
      const kept = await documents.find(RolloutInput, inputName(rolloutId));
      if (!kept) throw new RolloutError('not_found', `no input of ${rolloutId} is kept`);
      return kept;
    }
    if ('input' in declared) return declared.input;
    const rollouts = await documents.get(BatchRollouts, declared.ref);
    const found = rollouts.find((input) => input.rolloutId === rolloutId);
    if (!found)
      throw new RolloutError('not_found', `${rolloutId} is not declared in ${declared.ref}`);
    return found;
  }

  return {
    /** Records a rollout's result. Idempotent: the first recorded one stays. */
    recordResult: activity(async (result: RolloutResult): Promise<RolloutEnd> => {
      return endOf(await ledger.recordResult(result));
    }),

    /**
     * Records that a rollout ended without telling a result: unscored, class infra. Idempotent, and a result that was recorded
     * before stays.
     * @returns what the ledger now holds
     */
    recordLost: activity(
      async (lost: { rolloutId: string; why: string; declared: Declared }): Promise<RolloutEnd> => {
        const input = await readDeclared(lost.declared, lost.rolloutId);
        return endOf(await ledger.recordResult(lostResult(input, lost.why, new Date())));
      },
    ),

    /** The recorded ends among these rollouts: Temporal forgets after its retention, the ledger does not. */
    findResults: activity(async ({ rolloutIds }: { rolloutIds: string[] }): Promise<RolloutEnd[]> =>
      (await ledger.results(rolloutIds)).map(endOf),
    ),

    /** The next declared rollouts of a batch, at most `limit` and few enough for a history. */
    readRollouts: activity(
      async (page: { ref: string; offset: number; limit: number }): Promise<RolloutInput[]> => {
        const rollouts = await documents.get(BatchRollouts, page.ref);
        const taken: RolloutInput[] = [];
        let bytes = 0;
        for (const input of rollouts.slice(page.offset, page.offset + page.limit)) {
          bytes += JSON.stringify(input).length;
          if (taken.length > 0 && bytes > pageBytes) break;
          taken.push(input);
        }
        return taken;
      },
    ),

    /**
     * Waits until at least one of these rollouts has ended, however it did. A result that Temporal has and the ledger has not is
     * recorded.
     */
    awaitRollouts: activity(
      ({ rolloutIds }: { rolloutIds: string[] }, signal: AbortSignal): Promise<AwaitOutput> =>
        awaitAny(ledger, Context.current().client, rolloutIds, signal),
    ),

    /** Asks Temporal to cancel a workflow. Idempotent; one that is closed or gone is cancelled enough. */
    requestCancel: activity(async ({ workflowId }: { workflowId: string }): Promise<void> => {
      await nullIfGone(Context.current().client.workflow.getHandle(workflowId).cancel());
    }),
  };
}
