import type { BatchReport, RolloutSummary } from '../../contracts/batch';
import type { Failure, RolloutResult } from '../../contracts/rollout';
import type { RolloutRow } from '../../stores/ledger';
import { currentResult, regradedOf } from '../../rollouts/verdicts';

/** A batch as `run --json` prints it: its declared rollouts in order, whether they have a result or not. */
export function reportOf(
  batchId: string,
  rows: RolloutRow[],
  withoutResult: (row: RolloutRow) => Failure,
): BatchReport {
  const rollouts = rows.map((row) => {
    const result = currentResult(row);
    if (!result) return emptySummary(row, withoutResult(row));
    const regraded = regradedOf(row);
    return { ...summaryOf(result), ...(regraded ? { regraded } : {}) };
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

export function summaryOf(result: RolloutResult): RolloutSummary {
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

/** A rollout that never got as far as a result of its own. */
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

/** The report as a person reads it. */
export function reportLines(report: BatchReport): string[] {
  const rows = report.rollouts.map((r) => [
    `${r.task}/${r.index}`,
    r.outcome,
    rewardWords(r),
    r.stopReason ?? '-',
    String(r.steps),
    r.failure ? `${r.failure.class}: ${oneLine(r.failure.message)}` : namedRewards(r.rewards),
  ]);
  const table = tableLines(['rollout', 'outcome', 'reward', 'stop', 'steps', ''], rows);
  const mean = report.meanReward === null ? 'none' : formatReward(report.meanReward);
  const later = report.rollouts.filter(({ regraded }) => regraded).length;
  const byLater = later === 0 ? '' : `, ${later} by a later verdict`;
  return [
    ...table,
    '',
    `batch ${report.batchId}: mean reward ${mean} over ${report.scored}/${report.declared} scored${byLater}`,
  ];
}

export function formatReward(reward: number): string {
  return String(Number(reward.toFixed(4)));
}

/** A reward in a table: `1 (first 0)` where a later verdict counts. */
export function rewardWords(of: Pick<RolloutSummary, 'reward' | 'regraded'>): string {
  const words = (value: number | null) => (value === null ? '-' : formatReward(value));
  const { reward, regraded } = of;
  return regraded ? `${words(reward)} (first ${words(regraded.first)})` : words(reward);
}

function namedRewards(rewards: Record<string, number>): string {
  return Object.entries(rewards)
    .map(([name, value]) => `${name} ${formatReward(value)}`)
    .join(', ');
}

/** A message on one line: of a traceback, what went wrong stands last. */
export function oneLine(text: string, length = 160): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const clip = (line: string, most: number) =>
    line.length > most ? `${line.slice(0, most - 3)}...` : line;
  const [first = '', last = ''] = [lines[0], lines.at(-1)];
  if (lines.length < 2) return clip(first, length);
  return `${clip(first, length / 2)} … ${clip(last.trim(), length / 2)}`;
}

/** Columns as wide as their widest cell; nothing to draw with but spaces. */
export function tableLines(head: string[], rows: string[][]): string[] {
  const widths = head.map((cell, i) =>
    Math.max(cell.length, ...rows.map((row) => row[i]?.length ?? 0)),
  );
  return [head, ...rows].map((row) =>
    row
      .map((cell, i) => cell.padEnd(widths[i] ?? 0))
      .join('  ')
      .trimEnd(),
  );
}
