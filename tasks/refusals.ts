/** Where a field stands in a value: keys and list positions. */
export type FieldPath = (string | number)[];

/** What is wrong with one field, and what to do about it. */
export interface Complaint {
  path: FieldPath;
  message: string;
  remedy: string;
}

/** A complaint with its place in a file. */
export interface Refusal {
  file: string;
  /** Null where the file as a whole is meant. */
  line: number | null;
  /** `task "a"`, `row 3`, `defaults`, or empty for the taskset itself. */
  row: string;
  /** `environment.caps.diskMb`; empty where no single field is meant. */
  field: string;
  message: string;
  remedy: string;
}

/** As many as a person reads at once; the count of the rest is said. */
const shown = 20;

/** A taskset that cannot be run as it stands. Nothing has been started, and nothing was dropped from it. */
export class TasksetRefusedError extends Error {
  override readonly name = 'TasksetRefusedError';
  readonly refusals: Refusal[];

  /** @param found  in any order; they are told in the order of the file */
  constructor(found: Refusal[]) {
    const refusals = found.toSorted((a, b) => (a.line ?? 0) - (b.line ?? 0));
    const more = refusals.length - shown;
    super(
      [
        ...refusals.slice(0, shown).map(formatRefusal),
        ...(more > 0 ? [`and ${more} more of the kind`] : []),
      ].join('\n'),
    );
    this.refusals = refusals;
  }
}

/** `tasks.yaml:12: task "a": environment.caps.diskMb: not supported …; leave it out` */
export function formatRefusal(refusal: Refusal): string {
  const place = refusal.line === null ? refusal.file : `${refusal.file}:${refusal.line}`;
  const where = [place, refusal.row, refusal.field].filter((part) => part !== '');
  return `${where.join(': ')}: ${refusal.message}; ${refusal.remedy}`;
}

/** `files[0].from`, as a person would write it. */
export function fieldName(path: FieldPath): string {
  return path.reduce<string>((name, part) => {
    if (typeof part === 'number') return `${name}[${part}]`;
    return name === '' ? part : `${name}.${part}`;
  }, '');
}
