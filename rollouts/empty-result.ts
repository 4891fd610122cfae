import type { RolloutInput, RolloutResult } from '../contracts/rollout';
import { newFailure } from '../contracts/failures';

/** The result of a rollout whose workflow ended without one, as by a termination: what is not known is zero or empty. */
export function lostResult(input: RolloutInput, why: string, now: Date): RolloutResult {
  return {
    rolloutId: input.rolloutId,
    batchId: input.batchId,
    taskId: input.taskId,
    index: input.index,
    identity: input.identity,
    agent: input.agent,
    model: input.model.name,
    outcome: 'unscored',
    reward: null,
    rewards: {},
    failure: newFailure('RolloutLost', 'ended', why),
    stopReason: null,
    steps: 0,
    attempts: [],
    modelCalls: 0,
    modelCallsReissued: 0,
    toolCalls: 0,
    usage: { promptTokens: 0, completionTokens: 0, costUsd: null },
    workedS: 0,
    sandboxId: '',
    trajectory: '',
    checkpoints: [],
    verdicts: [],
    grades: [],
    tokens: null,
    submissionCaused: false,
    lineage: {
      parentRolloutId: input.from?.parentRolloutId ?? null,
      step: input.from?.step ?? null,
      version: input.from?.version ?? null,
      restored: [],
    },
    startedAt: now.toISOString(),
    endedAt: now.toISOString(),
  };
}
