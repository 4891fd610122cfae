import type { BatchReport, RolloutSummary } from '../../contracts/batch';

/** Returns a batch as a person reads it. */
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

/** Writes a reward in a table: `1 (first 0)` where a later verdict counts. */
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

/** Puts a message on one line, with its first and last line: a traceback says at its end what went wrong. */
export function oneLine(text: string, length = 160): string {
  const lines = text.split('\n').filter((line) => line.trim() !== '');
  const clip = (line: string, most: number) =>
    line.length > most ? `${line.slice(0, most - 3)}...` : line;
  const [first = '', last = ''] = [lines[0], lines.at(-1)];
  if (lines.length < 2) return clip(first, length);
  return `${clip(first, length / 2)} … ${clip(last.trim(), length / 2)}`;
}

/** Lays out columns as wide as their widest cell, with nothing but spaces. */
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
