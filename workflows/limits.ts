import type { RolloutInput, StopReason } from '../contracts/rollout';
import { toMs } from './state';
import type { RolloutState } from './state';

export const defaultMaxSteps = 50;
export const defaultAgentTimeoutS = 3600;
export const defaultMaxAttempts = 3;
export const defaultToolTimeoutS = 600;
const defaultLeaseS = 300;

/** The limit that forbids another model call, if one does. The call that crosses a limit is the last one. */
export function limitMet({ limits }: RolloutInput, state: RolloutState): StopReason | null {
  const { tokens, costUsd } = state.spent;
  if (state.step >= (limits.maxSteps ?? defaultMaxSteps)) return 'max_steps';
  if (limits.maxTokens !== undefined && tokens >= limits.maxTokens) return 'max_tokens';
  if (limits.maxCostUsd !== undefined && costUsd >= limits.maxCostUsd) return 'max_cost';
  if (secondsLeft({ limits }, state) <= 0) return 'agent_timeout';
  return null;
}

/** Working time that is left. Only what the agent itself took is charged: model answers and tool calls. */
export const secondsLeft = (
  { limits }: Pick<RolloutInput, 'limits'>,
  { spent }: RolloutState,
): number => toMs((limits.agentTimeoutS ?? defaultAgentTimeoutS) - spent.workedS);

/** Of the sandbox: it ends only when nothing renews it any more. */
export const leaseOf = ({ leaseS }: RolloutInput): number => leaseS ?? defaultLeaseS;

/** How long the next tool call may take. */
export const toolTimeoutS = (input: RolloutInput, state: RolloutState): number =>
  Math.min(input.limits.toolTimeoutS ?? defaultToolTimeoutS, secondsLeft(input, state));
