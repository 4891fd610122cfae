/** One number that we hold: what it is for us, what it is for the other side, and what the design promises. */
export interface Row {
  name: string;
  what: string;
  unit: 'ms' | 's' | 'MB';
  ours: number;
  other: { what: string; value: number } | null;
  /** ours / other */
  ratio: number | null;
  hold: string;
  ok: boolean;
  notes: string[];
}

export const median = (values: number[]): number => percentile(values, 0.5);

export function percentile(values: number[], p: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  const at = (sorted.length - 1) * p;
  const low = sorted[Math.floor(at)];
  const high = sorted[Math.ceil(at)];
  if (low === undefined || high === undefined) throw new Error('no values were measured');
  return low + (high - low) * (at - Math.floor(at));
}

/** A row that holds when ours is at most `most` times the other. */
export function ratioRow(
  row: Pick<Row, 'name' | 'what' | 'unit'> & { notes?: string[] },
  ours: number[],
  other: { what: string; values: number[] },
  most: number,
): Row {
  const value = median(other.values);
  const ratio = median(ours) / value;
  return {
    ...row,
    notes: row.notes ?? [],
    ours: median(ours),
    other: { what: other.what, value },
    ratio,
    hold: `<= ${most} x`,
    ok: ratio <= most,
  };
}

/** A row that holds when ours is at most `most`. */
export function limitRow(
  row: Pick<Row, 'name' | 'what' | 'unit'> & { notes?: string[]; other?: Row['other'] },
  ours: number,
  most: number,
): Row {
  return {
    ...row,
    notes: row.notes ?? [],
    other: row.other ?? null,
    ours,
    ratio: null,
    hold: `<= ${most} ${row.unit}`,
    ok: ours <= most,
  };
}

export async function timed<T>(work: () => Promise<T>): Promise<{ ms: number; value: T }> {
  const start = performance.now();
  const value = await work();
  return { ms: performance.now() - start, value };
}
