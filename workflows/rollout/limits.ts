import type { Failure, RolloutInput, StopReason } from '../../contracts/rollout';
import { newFailure } from '../../contracts/failures';
import { toMs } from './state';
import type { RolloutState } from './state';

export const defaultMaxSteps = 50;
export const defaultAgentTimeoutS = 3600;
export const defaultMaxAttempts = 3;
export const defaultToolTimeoutS = 600;
const defaultLeaseS = 300;
const defaultModelTimeoutS = 600;
const defaultModelWaitS = 900;

/** The limit that forbids another model call, if one does. The call that crosses a limit is the last one. */
export function limitMet({ limits }: RolloutInput, state: RolloutState): StopReason | null {
  const { tokens, costUsd } = state.spent;
  if (state.step >= (limits.maxSteps ?? defaultMaxSteps)) return 'max_steps';
  if (limits.maxTokens !== undefined && tokens >= limits.maxTokens) return 'max_tokens';
  if (limits.maxCostUsd !== undefined && costUsd >= limits.maxCostUsd) return 'max_cost';
  return timeUp({ limits }, state);
}

type Limited = Pick<RolloutInput, 'limits'>;

/** The limit in time that is met, if one is. */
export function timeUp(
  input: Limited,
  state: RolloutState,
): 'agent_timeout' | 'run_timeout' | null {
  if (workLeft(input, state) <= 0) return 'agent_timeout';
  return runLeft(input, state) <= 0 ? 'run_timeout' : null;
}

/** How long the agent may go on: what is left of its working time and of the run's wall-clock time, the smaller of the two. */
export const secondsLeft = (input: Limited, state: RolloutState): number =>
  Math.min(workLeft(input, state), runLeft(input, state));

/** Only what the agent itself took is charged: model answers and tool calls. */
const workLeft = ({ limits }: Limited, { spent }: RolloutState): number =>
  toMs((limits.agentTimeoutS ?? defaultAgentTimeoutS) - spent.workedS);

function runLeft(input: Limited, state: RolloutState): number {
  const endsAtMs = runEndsAtMs(input, state);
  return endsAtMs === null ? Infinity : toMs((endsAtMs - Date.now()) / 1000);
}

/** Wall-clock time at which the run of this attempt is over; null where it has no limit. */
export const runEndsAtMs = ({ limits }: Limited, { readyAtMs }: RolloutState): number | null =>
  limits.runTimeoutS === undefined || readyAtMs === null
    ? null
    : readyAtMs + limits.runTimeoutS * 1000;

/** What a limit in time means for a rollout that is graded all the same; null for any other end. */
export function timeoutFailure({ limits }: Limited, stopReason: StopReason): Failure | null {
  if (stopReason === 'agent_timeout') {
    const message = `the agent's ${limits.agentTimeoutS ?? defaultAgentTimeoutS} s were over`;
    return newFailure('AgentTimeout', 'loop', message);
  }
  if (stopReason !== 'run_timeout') return null;
  return newFailure('RunTimeout', 'loop', `the run's ${limits.runTimeoutS} s were over`);
}

/** Seconds for one answer of a model, and for its endpoint to be away. */
export const modelLimitsOf = (input: RolloutInput): { timeoutS: number; waitS: number } => ({
  timeoutS: input.modelTimeoutS ?? defaultModelTimeoutS,
  waitS: input.modelWaitS ?? defaultModelWaitS,
});

/** Of the sandbox: it ends only when nothing renews it any more. */
export const leaseOf = ({ leaseS }: RolloutInput): number => leaseS ?? defaultLeaseS;

/** How long the next tool call may take. */
export const toolTimeoutS = (input: RolloutInput, state: RolloutState): number =>
  Math.min(input.limits.toolTimeoutS ?? defaultToolTimeoutS, secondsLeft(input, state));
