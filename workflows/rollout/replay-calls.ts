import { workflowInfo } from '@temporalio/workflow';
import type { RolloutInput } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { replayKey } from './keys';
import { defaultToolTimeoutS, leaseOf } from './limits';
import { worldOf } from './state';
import type { RolloutState } from './state';

/** Calls made by one activity. */
const atOnce = 20;

/**
 * Brings a new world to where a continuation starts: the recorded tool calls before its step are made again, in their order, and
 * answered as they were, or the rollout ends with ReplayDiverged. No model is asked, and nothing is charged: all of that was paid for
 * by the parent. True when the history is full: the rest of it is made in the next run.
 */
export async function replay(input: RolloutInput, state: RolloutState): Promise<boolean> {
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
  const timeoutS = input.limits.toolTimeoutS ?? defaultToolTimeoutS;
  while (plan.made < plan.calls) {
    if (workflowInfo().continueAsNewSuggested) return true;
    const count = Math.min(atOnce, plan.calls - plan.made);
    const summary = `replay ${count} calls from ${plan.made} of ${plan.calls}`;
    await activitiesFor('run', summary, count * timeoutS).replayCalls({
      callsKey: replayKey(state),
      sandboxId: worldOf(state).sandboxId,
      leaseS: leaseOf(input),
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
