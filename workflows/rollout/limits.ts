import type { Failure, RolloutInput, StopReason } from '../../contracts/rollout';
import { newFailure } from '../../contracts/failures';
import type { Rollout } from './live-rollout';
import { toMs } from './state';

const defaultMaxSteps = 50;
const defaultAgentTimeoutS = 3600;
const defaultMaxAttempts = 3;
const defaultToolTimeoutS = 600;
const defaultModelTimeoutS = 600;
const defaultModelWaitS = 900;

/** How long one snapshot may take. */
export const snapshotTimeoutS = 600;

/** The limit that forbids another model call, if one does. The call that crosses a limit is the last one. */
export function limitMet(rollout: Rollout): StopReason | null {
  const { limits } = rollout.input;
  const { step, spent } = rollout.state;
  if (step >= (limits.maxSteps ?? defaultMaxSteps)) return 'max_steps';
  if (limits.maxTokens !== undefined && spent.tokens >= limits.maxTokens) return 'max_tokens';
  if (limits.maxCostUsd !== undefined && spent.costUsd >= limits.maxCostUsd) return 'max_cost';
  return timeUp(rollout);
}

/** The limit in time that is met, if one is. */
export function timeUp(rollout: Rollout): 'agent_timeout' | 'run_timeout' | null {
  if (workLeft(rollout) <= 0) return 'agent_timeout';
  return runLeft(rollout) <= 0 ? 'run_timeout' : null;
}

/** The smaller of what is left of the agent's working time and of the run's wall-clock time. */
export const secondsLeft = (rollout: Rollout): number =>
  Math.min(workLeft(rollout), runLeft(rollout));

/** Only what the agent itself took is charged: model answers and tool calls. */
const workLeft = ({ input, state }: Rollout): number =>
  toMs((input.limits.agentTimeoutS ?? defaultAgentTimeoutS) - state.spent.workedS);

function runLeft(rollout: Rollout): number {
  const endsAtMs = runEndsAtMs(rollout);
  return endsAtMs === null ? Infinity : toMs((endsAtMs - Date.now()) / 1000);
}

/** Wall-clock time at which the run of this attempt is over; null where it has no limit. */
export function runEndsAtMs({ input, state }: Rollout): number | null {
  const { runTimeoutS } = input.limits;
  if (runTimeoutS === undefined || state.readyAtMs === null) return null;
  return state.readyAtMs + runTimeoutS * 1000;
}

/** The failure that a limit in time is reported as, beside the grade; null for any other end. */
export function timeoutFailure(
  { limits }: Pick<RolloutInput, 'limits'>,
  stopReason: StopReason,
): Failure | null {
  if (stopReason === 'agent_timeout') {
    const message = `the agent's ${limits.agentTimeoutS ?? defaultAgentTimeoutS} s were over`;
    return newFailure('AgentTimeout', 'loop', message);
  }
  if (stopReason !== 'run_timeout') return null;
  return newFailure('RunTimeout', 'loop', `the run's ${limits.runTimeoutS} s were over`);
}

/** Seconds that one answer of the model may take, and that its endpoint may be away. */
export const modelLimits = ({ input }: Rollout): { timeoutS: number; waitS: number } => ({
  timeoutS: input.modelTimeoutS ?? defaultModelTimeoutS,
  waitS: input.modelWaitS ?? defaultModelWaitS,
});

/** Seconds that one tool call or set-up command may take. */
export const toolTimeoutS = ({ input }: Rollout): number =>
  input.limits.toolTimeoutS ?? defaultToolTimeoutS;

export const maxAttempts = ({ input }: Rollout): number =>
  input.limits.maxAttempts ?? defaultMaxAttempts;
