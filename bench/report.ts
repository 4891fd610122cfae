import type { Row } from './row';

const columns = ['what', 'ours', 'the other side', 'ratio', 'to hold', ''] as const;

/** The rows as a table of plain text, notes below their row. */
export function tableOf(rows: Row[]): string {
  const cells = rows.map((row) => [
    row.what,
    amount(row.ours, row.unit),
    row.other ? `${amount(row.other.value, row.unit)}  ${row.other.what}` : '',
    row.ratio === null ? '' : `${row.ratio.toFixed(2)} x`,
    row.hold,
    row.ok ? 'ok' : 'MISSED',
  ]);
  const widths = columns.map((title, n) =>
    Math.max(title.length, ...cells.map((line) => line[n]?.length ?? 0)),
  );
  const line = (values: readonly string[]) =>
    values
      .map((value, n) => value.padEnd(widths[n] ?? 0))
      .join('  ')
      .trimEnd();
  const lines = [line(columns), line(widths.map((width) => '-'.repeat(width)))];
  rows.forEach((row, n) => {
    lines.push(line(cells[n] ?? []));
    for (const note of row.notes) lines.push(`    ${note}`);
  });
  return lines.join('\n');
}

function amount(value: number, unit: Row['unit']): string {
  const digits = unit === 'ms' ? (Math.abs(value) < 10 ? 1 : 0) : 2;
  return `${value.toFixed(digits)} ${unit}`;
}
