import type { RolloutResult } from '../../contracts/rollout';
import type { Rollout } from './live-rollout';
import type { RolloutEnding } from './state';

export function toResult(
  { input, state }: Rollout,
  end: RolloutEnding,
  endedAt: string,
): RolloutResult {
  return {
    rolloutId: input.rolloutId,
    batchId: input.batchId,
    taskId: input.taskId,
    index: input.index,
    identity: input.identity,
    agent: input.agent,
    model: input.model.name,
    ...end,
    stopReason: state.stopReason,
    steps: state.step,
    attempts: state.attempts,
    modelCalls: state.modelCalls,
    modelCallsReissued: state.modelCallsReissued,
    toolCalls: state.toolCalls,
    usage: state.usage,
    workedS: state.spent.workedS,
    sandboxId: state.sandboxId,
    trajectory: state.head,
    checkpoints: state.checkpoints,
    verdicts: state.verdicts,
    grades: state.grades,
    tokens: state.tokens,
    lineage: {
      parentRolloutId: input.from?.parentRolloutId ?? null,
      step: input.from?.step ?? null,
      version: input.from?.version ?? null,
      restored: state.restored,
    },
    startedAt: state.startedAt,
    endedAt,
  };
}
