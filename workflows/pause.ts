import { condition, workflowInfo } from '@temporalio/workflow';
import { activitiesFor, leaseS } from './activity-options';
import type { RolloutState, World } from './state';

/** Waits while a rollout is paused, and keeps its sandbox alive. Returns early when the history wants to continue as new. */
export async function whilePaused(state: RolloutState, world: World): Promise<void> {
  while (state.paused && !workflowInfo().continueAsNewSuggested) {
    if (await condition(() => !state.paused, (leaseS * 1000) / 3)) return;
    await activitiesFor('record', 'paused: renew lease').renewLease({
      sandboxId: world.sandboxId,
      leaseS,
    });
  }
}
