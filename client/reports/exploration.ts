import type { ExplorationResult } from '../../contracts/exploration';
import { formatReward, tableLines } from './table';
import { shortId } from './tree';

/** Returns an exploration as a person reads it: the outcome of each continuation, and the value of each step. */
export function explorationLines(rootId: string, result: ExplorationResult): string[] {
  const { best, rollouts, scored } = result;
  const worth = best
    ? `best reward ${formatReward(best.reward)}, ${best.rolloutId}`
    : 'no continuation was scored';
  const of = `${scored}/${rollouts.length} scored, ${result.modelCalls} model calls`;
  return [
    ...continuationTable(rootId, result),
    ...valueTable(result),
    '',
    `${worth}; ${of}; ${endWords(result.ended)}`,
    `look closer: rollouts tree ${rootId}`,
  ];
}

/** At most this many continuations are listed; `rollouts tree` has them all. */
const shown = 60;

function continuationTable(rootId: string, { rollouts }: ExplorationResult): string[] {
  const rows = rollouts
    .slice(0, shown)
    .map(({ rolloutId, parentRolloutId, step, outcome, reward }) => [
      shortId(rootId, rolloutId),
      `${parentRolloutId === null || parentRolloutId === rootId ? '' : `${shortId(rootId, parentRolloutId)} `}step ${step ?? '-'}`,
      outcome,
      reward === null ? '-' : formatReward(reward),
    ]);
  const table = tableLines(['continuation', 'from before', 'outcome', 'reward'], rows);
  const left = rollouts.length - rows.length;
  return left > 0 ? [...table, `and ${left} more`] : table;
}

function valueTable({ values }: ExplorationResult): string[] {
  if (values.length === 0) return [];
  const rows = values.map(({ step, value, visits, scored }) => [
    String(step),
    value === null ? '-' : formatReward(value),
    String(visits),
    String(scored),
  ]);
  return ['', ...tableLines(['before step', 'value', 'visits', 'scored'], rows)];
}

function endWords(ended: ExplorationResult['ended']): string {
  switch (ended) {
    case 'done':
      return 'the strategy is done';
    case 'stop_reward':
      return 'stopped by --stop-when';
    case 'limit':
      return 'stopped by a limit';
    case 'cancelled':
      return 'cancelled';
  }
}
