import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { RolloutResult } from '../../contracts/rollout';
import type { Ledger } from '../../stores/ledger';
import { readWorkflowState } from '../../temporal/states';

/** How a rollout ended, in as few bytes as a batch needs. */
export type RolloutEnd = Pick<RolloutResult, 'rolloutId' | 'outcome' | 'reward'>;

export interface AwaitOutput {
  ended: RolloutEnd[];
  /** Closed, or never there, without a result anywhere: somebody terminated them. */
  lost: { rolloutId: string; why: string }[];
}

const pollMs = 1000;
/** Polls of the ledger without news before Temporal itself is asked. */
const quietPolls = 5;

export const endOf = ({ rolloutId, outcome, reward }: RolloutResult): RolloutEnd => ({
  rolloutId,
  outcome,
  reward,
});

/**
 * Waits until at least one of these rollouts has ended. The ledger tells, once a second; when it has been quiet for a while,
 * Temporal is asked which of them are closed all the same.
 */
export async function awaitAny(
  ledger: Ledger,
  client: Client,
  rolloutIds: string[],
  signal: AbortSignal,
): Promise<AwaitOutput> {
  for (let poll = 1; ; poll += 1) {
    const ended = await ledger.results(rolloutIds);
    if (ended.length > 0) return { ended: ended.map(endOf), lost: [] };
    if (poll % quietPolls === 0) {
      const found = await closedAmong(ledger, client, rolloutIds, signal);
      if (found.ended.length + found.lost.length > 0) return found;
    }
    await sleep(pollMs, undefined, { signal });
  }
}

async function closedAmong(
  ledger: Ledger,
  client: Client,
  rolloutIds: string[],
  signal: AbortSignal,
): Promise<AwaitOutput> {
  const found: AwaitOutput = { ended: [], lost: [] };
  for (const rolloutId of rolloutIds) {
    signal.throwIfAborted();
    const status = await readWorkflowState(client, rolloutId);
    if (status === 'RUNNING') continue;
    if (status === 'COMPLETED') {
      const result: unknown = await client.workflow.getHandle(rolloutId).result();
      found.ended.push(endOf(await ledger.recordResult(RolloutResult.parse(result))));
      continue;
    }
    // It may have been recorded since the ledger was asked.
    const [late] = await ledger.results([rolloutId]);
    if (late) found.ended.push(endOf(late));
    else found.lost.push({ rolloutId, why: `its workflow is ${status}` });
  }
  return found;
}
