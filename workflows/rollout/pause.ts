import { condition, workflowInfo } from '@temporalio/workflow';
import type { RolloutInput } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { takeAsked } from './checkpoint-requests';
import { leaseOf } from './limits';
import { worldOf } from './state';
import type { RolloutState } from './state';

/** Waits while a rollout is paused, and keeps its sandbox alive. Returns early when the history wants to continue as new. */
export async function whilePaused(input: RolloutInput, state: RolloutState): Promise<void> {
  const leaseS = leaseOf(input);
  const asked = (): boolean => state.answered.upTo < state.checkpointsAsked;
  while (state.paused && !workflowInfo().continueAsNewSuggested) {
    if (asked()) await takeAsked(input, state);
    const woken = await condition(() => !state.paused || asked(), (leaseS * 1000) / 3);
    if (!state.paused) return;
    if (woken) continue;
    await activitiesFor('record', 'paused: renew lease').renewLease({
      sandboxId: worldOf(state).sandboxId,
      leaseS,
    });
  }
}
