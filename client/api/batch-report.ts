import type { BatchReport, RolloutSummary } from '../../contracts/batch';
import type { Failure, RolloutResult } from '../../contracts/rollout';
import type { RolloutRow } from '../../stores/ledger';
import { currentResult, regradedOf } from '../../rollouts/verdicts';

/** Sums up a batch as `run --json` prints it: its declared rollouts in order, whether they have a result or not. */
export function toBatchReport(
  batchId: string,
  rows: RolloutRow[],
  withoutResult: (row: RolloutRow) => Failure,
): BatchReport {
  const rollouts = rows.map((row) => {
    const result = currentResult(row);
    if (!result) return emptySummary(row, withoutResult(row));
    const regraded = regradedOf(row);
    return { ...toSummary(result), ...(regraded ? { regraded } : {}) };
  });
  const scored = rollouts.filter(({ outcome }) => outcome === 'scored');
  const sum = scored.reduce((total, { reward }) => total + (reward ?? 0), 0);
  return {
    batchId,
    declared: rollouts.length,
    scored: scored.length,
    unscored: rollouts.length - scored.length,
    meanReward: scored.length === 0 ? null : sum / scored.length,
    rollouts,
  };
}

export function toSummary(result: RolloutResult): RolloutSummary {
  return {
    rolloutId: result.rolloutId,
    task: result.taskId,
    index: result.index,
    outcome: result.outcome,
    reward: result.reward,
    rewards: result.rewards,
    failure: result.failure,
    stopReason: result.stopReason,
    steps: result.steps,
    attempts: result.attempts.length,
    modelCalls: result.modelCalls,
    modelCallsReissued: result.modelCallsReissued,
    toolCalls: result.toolCalls,
    usage: result.usage,
    sandboxId: result.sandboxId,
  };
}

/** A rollout that never had a result of its own. */
function emptySummary(row: RolloutRow, failure: Failure): RolloutSummary {
  return {
    rolloutId: row.rolloutId,
    task: row.taskId,
    index: row.index,
    outcome: 'unscored',
    reward: null,
    rewards: {},
    failure,
    stopReason: failure.class === 'cancelled' ? 'cancelled' : null,
    steps: 0,
    attempts: 0,
    modelCalls: 0,
    modelCallsReissued: 0,
    toolCalls: 0,
    usage: { promptTokens: 0, completionTokens: 0, costUsd: null },
    sandboxId: '',
  };
}
