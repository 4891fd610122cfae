import { isCancellation } from '@temporalio/workflow';
import type { RolloutInput, StopReason } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { troubleOf } from '../failures';
import { commandKey } from './keys';
import { leaseOf, timeUp, toolTimeoutS } from './limits';
import { charge, worldOf } from './state';
import type { RolloutState } from './state';

/**
 * The oracle: runs the task's own solution, in order and to its end. An exit code other than zero is evidence that the verifier's
 * verdict will be read with, and stops nothing.
 */
export async function runSolution(input: RolloutInput, state: RolloutState): Promise<StopReason> {
  const { sandboxId, task } = worldOf(state);
  for (let index = 0; index < task.solutionCommands; index += 1) {
    const limit = timeUp(input, state);
    if (limit) return limit;
    const timeoutS = toolTimeoutS(input, state);
    try {
      const done = await activitiesFor('run', `solution ${index}`, timeoutS).runCommand({
        key: commandKey(state, 'solution', index),
        sandboxId,
        leaseS: leaseOf(input),
        taskRef: input.taskRef,
        list: 'solution',
        index,
        timeoutS,
      });
      charge(state, done.timedOut ? Math.max(done.durationS, timeoutS) : done.durationS);
      state.pending.push({ type: 'kept', ref: done.ref });
    } catch (error) {
      if (isCancellation(error)) throw error;
      const { failure, details } = troubleOf(error, 'loop');
      if (failure.type !== 'SandboxStopped' || details.evidence?.by === 'outside') throw error;
      state.agentFailure = { ...failure, class: 'agent' };
      return 'sandbox_lost';
    }
  }
  return 'done';
}
