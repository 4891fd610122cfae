import { isCancellation } from '@temporalio/workflow';
import type { StopReason } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { toTrouble } from '../failures';
import { commandKey } from './keys';
import { secondsLeft, timeUp, toolTimeoutS } from './limits';
import type { Rollout } from './live-rollout';

/**
 * The oracle: runs the task's own solution, in order and to its end. An exit code other than zero is evidence beside the verifier's
 * verdict, and stops nothing.
 */
export async function runSolution(rollout: Rollout): Promise<StopReason> {
  const { input, state, sandbox } = rollout;
  for (let index = 0; index < sandbox.task.solutionCommands; index += 1) {
    const limit = timeUp(rollout);
    if (limit) return limit;
    const timeoutS = Math.min(toolTimeoutS(rollout), secondsLeft(rollout));
    try {
      const done = await activitiesFor('run', `solution ${index}`, timeoutS).runCommand({
        key: commandKey(state, 'solution', index),
        sandboxId: sandbox.sandboxId,
        leaseS: rollout.leaseS,
        taskRef: input.taskRef,
        list: 'solution',
        index,
        timeoutS,
      });
      rollout.charge(done.timedOut ? Math.max(done.durationS, timeoutS) : done.durationS);
      state.pending.push({ type: 'kept', ref: done.ref });
    } catch (error) {
      if (isCancellation(error)) throw error;
      const { failure, details } = toTrouble(error, 'loop');
      if (failure.type !== 'SandboxStopped' || details.evidence?.by === 'outside') throw error;
      state.agentFailure = { ...failure, class: 'agent' };
      return 'sandbox_lost';
    }
  }
  return 'done';
}
