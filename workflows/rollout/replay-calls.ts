import { workflowInfo } from '@temporalio/workflow';
import { activitiesFor } from '../activity-options';
import { replayKey } from './keys';
import { toolTimeoutS } from './limits';
import type { Rollout } from './live-rollout';

/** Calls that one activity makes. */
const atOnce = 20;

/**
 * Brings a new sandbox to where a continuation starts, by replaying its parent's calls: those before its step are made again, in
 * their order. Each must be answered as it was, or the rollout ends with ReplayDiverged. No model is asked, and nothing is charged:
 * the parent has paid for all of it. Returns true when the history is full and the next run makes the rest.
 */
export async function replayCalls(rollout: Rollout): Promise<boolean> {
  const { input, state } = rollout;
  const { from } = input;
  if (!from || from.way !== 'replay' || state.stage === 'loop') return false;
  state.stage = 'setup';
  state.replay ??= {
    made: 0,
    ...(await activitiesFor('record', 'replay: plan').planReplay({
      taskRef: input.taskRef,
      parentRolloutId: from.parentRolloutId,
      version: from.version,
      head: from.replay ?? from.trajectory,
      step: from.step,
    })),
  };
  const { replay: plan } = state;
  const timeoutS = toolTimeoutS(rollout);
  while (plan.made < plan.calls) {
    if (workflowInfo().continueAsNewSuggested) return true;
    const count = Math.min(atOnce, plan.calls - plan.made);
    const summary = `replay ${count} calls from ${plan.made} of ${plan.calls}`;
    await activitiesFor('run', summary, count * timeoutS).replayCalls({
      callsKey: replayKey(state),
      sandboxId: rollout.sandbox.sandboxId,
      leaseS: rollout.leaseS,
      planRef: plan.planRef,
      from: plan.made,
      count,
      timeoutS,
    });
    plan.made += count;
  }
  // The agent's own time begins now.
  state.readyAtMs = Date.now();
  return false;
}
