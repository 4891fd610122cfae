import { WorkflowFailedError } from '@temporalio/client';
import type { RolloutRow } from '../../stores/ledger';
import type { Rollouts } from '../api/connect';
import type { Context } from '../context';
import { resultLine } from './batch';
import { handle } from '../api/rollouts';

/**
 * Waits for rollouts that no batch workflow runs, with a line for each that ends.
 * @returns their rows in the ledger
 */
export async function followForks(
  context: Context,
  rollouts: Rollouts,
  rolloutIds: string[],
): Promise<RolloutRow[]> {
  let ended = 0;
  await Promise.all(
    rolloutIds.map(async (id) => {
      await awaitClosed(rollouts, id);
      ended += 1;
      const result = (await rollouts.ledger.rollout(id))?.result;
      if (result) context.note(resultLine(result, { ended, declared: rolloutIds.length }));
    }),
  );
  const rows = await Promise.all(rolloutIds.map((id) => rollouts.ledger.rollout(id)));
  return rows.filter((row) => row !== null);
}

/** Waits for a rollout to close, in whatever way: a cancelled one has recorded its result too. */
async function awaitClosed(rollouts: Rollouts, rolloutId: string): Promise<void> {
  try {
    await handle(rollouts, rolloutId).result();
  } catch (error) {
    if (!(error instanceof WorkflowFailedError)) throw error;
  }
}
