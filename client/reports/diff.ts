import type { TrajectoryEntry } from '../../contracts/trajectory';
import { entryLines } from './rollout';
import type { DiffSide, FilesDiff, Parting, RolloutDiff } from '../api/diff';
import { formatReward, tableLines } from './table';

/** Returns two rollouts side by side, with the first few files that differ, or all of them. */
export function diffLines(diff: RolloutDiff, options: { files?: boolean }): string[] {
  return [
    `a  ${diff.rolloutIds[0]}`,
    `b  ${diff.rolloutIds[1]}`,
    '',
    ...partingLines(diff),
    '',
    ...sideLines(diff.sides),
    '',
    ...fileLines(diff.files, options.files ? Infinity : shownFiles),
  ];
}

const shownFiles = 20;

function partingLines({ parting, shared }: RolloutDiff): string[] {
  if (!parting) return [`They do not differ, in ${shared} entries.`];
  return [
    `They part at step ${parting.step}, after ${shared} common entries.`,
    ...sideEntryLines('a', parting, 0),
    ...sideEntryLines('b', parting, 1),
  ];
}

function sideEntryLines(name: string, { entries }: Parting, side: 0 | 1): string[] {
  const entry: TrajectoryEntry | null = entries[side];
  if (!entry) return [`${name}`, '  ends here'];
  return [name, ...entryLines(entry)];
}

function sideLines([a, b]: [DiffSide, DiffSide]): string[] {
  const names = (of: (side: DiffSide) => object) => [
    ...new Set([...Object.keys(of(a)), ...Object.keys(of(b))]),
  ];
  const row = (name: string, of: (side: DiffSide) => string) => [name, of(a), of(b)];
  const number = (value: number | null | undefined) =>
    value === null || value === undefined ? '-' : formatReward(value);
  const rows = [
    row('outcome', ({ state }) => state),
    row('reward', ({ reward }) => number(reward)),
    ...names(({ rewards }) => rewards).map((name) =>
      row(`  ${name}`, ({ rewards }) => number(rewards[name])),
    ),
    ...names(({ grades }) => grades).map((name) =>
      row(`grade ${name}`, ({ grades }) => number(grades[name])),
    ),
    row('stop', ({ stopReason }) => stopReason ?? '-'),
    row('model', ({ model }) => model || '-'),
    row('steps', ({ steps }) => String(steps)),
    row('tool calls', ({ toolCalls }) => number(toolCalls)),
    row('tokens', ({ usage }) =>
      usage ? `${usage.promptTokens} + ${usage.completionTokens}` : '-',
    ),
    row('cost, $', ({ usage }) => number(usage?.costUsd)),
    row('worked, s', ({ workedS }) => number(workedS)),
  ];
  return tableLines(['', 'a', 'b'], rows);
}

function fileLines({ versions, diff, why }: FilesDiff, most: number): string[] {
  if (!diff) return [`Files: not compared, because ${why}.`];
  const [a, b] = versions;
  if (diff.files.length === 0) return [`Files: the same, in ${a} and ${b}.`];
  const marks = { added: '+', removed: '-', changed: '~' } as const;
  const shown = diff.files.slice(0, most);
  const left = diff.files.length - shown.length;
  return [
    `Files, from ${a} to ${b}:`,
    ...shown.map(({ path, change, bytes }) => `  ${marks[change]} ${path}  ${bytes} bytes`),
    ...(left + diff.more > 0
      ? [
          `  and ${left + diff.more} more${left > 0 ? `; ${diff.more > 0 ? `${left} of them with --files` : 'all with --files'}` : ''}`,
        ]
      : []),
  ];
}
