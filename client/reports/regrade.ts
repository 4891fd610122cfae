import type { RolloutDescription } from '../api/describe';
import type { Regraded, RegradeReport } from '../api/regrade';
import { formatReward, oneLine, tableLines } from './table';

/** Returns the verdicts that a rollout was given after its end, the newest last. */
export function regradeLines({ regrades }: Pick<RolloutDescription, 'regrades'>): string[] {
  return regrades.map(({ regradeId, version, reward, why, at, current }) => {
    const said = reward === null ? (why ?? 'no verdict') : `reward ${formatReward(reward)}`;
    return `  ${regradeId} of ${version}, ${at}: ${said}${current ? ' (current)' : ''}`;
  });
}

/** Returns what a regrade came to, as a person reads it. */
export function regradeReportLines(
  report: RegradeReport,
  { diff, dryRun }: { diff?: boolean; dryRun?: boolean },
): string[] {
  const { regradeId, judged, missing, turned, same, rollouts } = report;
  if (rollouts.length === 0) return ['nothing to verify'];
  const shown = diff ? rollouts.filter((one) => one.turned || one.why !== null) : rollouts;
  const table = tableLines(['rollout', 'before', 'now', ''], shown.map(cells));
  const count = rollouts.length;
  const lack = missing === 0 ? '' : `, ${missing} without a snapshot`;
  const sum = dryRun
    ? `${rollouts.filter(({ why }) => why === null).length} of ${count} would be verified${lack}`
    : `${regradeId ?? 'nothing started'}: ${judged} of ${count} verified${lack}; ${turned} changed, ${same} same`;
  return shown.length === 0 ? [sum] : [...table, '', sum];
}

function cells({ rolloutId, before, reward, judged, turned, why }: Regraded): string[] {
  const words = (value: number | null) => (value === null ? '-' : formatReward(value));
  const said = why === null ? (turned ? 'changed' : judged ? 'same' : '') : oneLine(why, 200);
  return [rolloutId, words(before), judged ? words(reward) : '', said];
}
