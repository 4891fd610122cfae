import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, isAbsolute, resolve } from 'node:path';
import { Task, Taskset } from '../contracts/task';
import { complaintsOf } from './complaints';
import { parseTaskset } from './formats';
import type { SourcePart } from './formats';
import { mergeDefaults } from './merge';
import { fieldName, formatRefusal, TasksetRefusedError } from './refusals';
import type { Complaint, FieldPath, Refusal } from './refusals';
import { unsupportedValues } from './supported';
import type { ImagePlaces } from './supported';

export interface LoadedTaskset {
  name: string;
  /** Paths in `files[].from` start here. */
  folder: string;
  /** In the order of the file, defaults merged in. */
  tasks: Task[];
}

/**
 * Reads a taskset and checks all of it: every row, every field, every file it names. Reads only.
 * @throws TasksetRefusedError with all that is wrong, by file, line, row and field
 */
export async function loadTaskset(path: string, places: ImagePlaces): Promise<LoadedTaskset> {
  const source = parseTaskset(path, await readTasksetFile(path));
  const folder = dirname(resolve(path));
  const refusals: Refusal[] = [];

  const name = Taskset.shape.name.safeParse(source.name.value);
  if (!name.success) {
    refusals.push({
      file: path,
      line: source.name.lineOf([]).line,
      row: '',
      field: 'name',
      message: source.name.value === undefined ? 'missing' : 'does not fit',
      remedy:
        'give a name of letters, digits, ".", "_" and "-", at most 64, as in `name: my-tasks`',
    });
  }
  refusals.push(...defaultsRefusals(path, source.defaults));

  const tasks: Task[] = [];
  const firstLines = new Map<string, number>();
  source.rows.forEach((row, i) => {
    const merged = mergeDefaults(source.defaults.value, row.value);
    const id = rowId(row.value);
    const label = id === undefined ? `row ${i + 1}` : `task "${id}"`;
    const complaints = rowComplaints(row.value, merged, folder, places);
    if (id !== undefined) {
      const before = firstLines.get(id);
      const message = `used before, on line ${before}`;
      if (before !== undefined)
        complaints.push({ path: ['id'], message, remedy: 'give each task its own id' });
      else firstLines.set(id, row.lineOf(['id']).line);
    }
    refusals.push(...complaints.map((c) => place(path, c, label, row, source.defaults)));
    if (complaints.length === 0) tasks.push(Task.parse(merged));
  });

  if (refusals.length > 0 || !name.success) throw new TasksetRefusedError(withoutRepeats(refusals));
  return { name: name.data, folder, tasks };
}

async function readTasksetFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const code: unknown = Reflect.get(Object(error), 'code');
    const message =
      code === 'ENOENT' ? 'there is no such file' : `cannot be read (${String(code)})`;
    throw new TasksetRefusedError([
      { file: path, line: null, row: '', field: '', message, remedy: 'name a taskset file' },
    ]);
  }
}

/** Defaults need not be whole: a task may bring the missing image. All else is judged as in a task. */
function defaultsRefusals(file: string, defaults: SourcePart): Refusal[] {
  if (defaults.value === undefined || defaults.value === null) return [];
  return complaintsOf(Taskset.shape.defaults.unwrap(), defaults.value)
    .filter(({ path, message }) => message !== 'missing' && path.join('.') !== 'environment.image')
    .map(({ path, ...words }) => ({
      file,
      line: defaults.lineOf(path).line,
      row: 'defaults',
      field: fieldName(path),
      ...words,
    }));
}

function rowComplaints(
  row: unknown,
  merged: unknown,
  folder: string,
  places: ImagePlaces,
): Complaint[] {
  if (typeof row !== 'object' || row === null || Array.isArray(row)) {
    return [{ path: [], message: 'not a task', remedy: 'give a mapping with `id` and `prompt`' }];
  }
  const unsupported = unsupportedValues(merged, places);
  const named = new Set(unsupported.map(({ path }) => path.join('.')));
  const others = complaintsOf(Task, merged).filter(
    // An environment that is not there at all has been complained of as its missing image.
    ({ path, message }) =>
      !named.has(path.join('.')) && !(message === 'missing' && path.join('.') === 'environment'),
  );
  return [...unsupported, ...others, ...fileComplaints(merged, folder)];
}

function fileComplaints(merged: unknown, folder: string): Complaint[] {
  return ['environment', 'verifier'].flatMap((part) => {
    const files: unknown = Reflect.get(Object(Reflect.get(Object(merged), part)), 'files');
    if (!Array.isArray(files)) return [];
    return files.flatMap((file: unknown, i): Complaint[] => {
      const from: unknown = Reflect.get(Object(file), 'from');
      if (typeof from !== 'string') return [];
      const path: FieldPath = [part, 'files', i, 'from'];
      if (isAbsolute(from)) {
        const remedy = 'give a path from the taskset\u2019s own folder';
        return [{ path, message: `${from} is an absolute path`, remedy }];
      }
      const found = resolve(folder, from);
      if (existsSync(found)) return [];
      return [{ path, message: `there is no ${found}`, remedy: 'make it, or mend the path' }];
    });
  });
}

function rowId(row: unknown): string | undefined {
  const id: unknown = Reflect.get(Object(row), 'id');
  return typeof id === 'string' ? id : undefined;
}

/** A field that the task did not write itself stands in the defaults. */
function place(
  file: string,
  complaint: Complaint,
  label: string,
  row: SourcePart,
  defaults: SourcePart,
): Refusal {
  const { path, message, remedy } = complaint;
  const own = row.lineOf(path);
  const shared = defaults.lineOf(path);
  const ofDefaults = shared.depth > own.depth;
  return {
    file,
    line: ofDefaults ? shared.line : own.line,
    row: ofDefaults ? 'defaults' : label,
    field: fieldName(path),
    message,
    remedy,
  };
}

/** One fault in the defaults shows in every task. */
function withoutRepeats(refusals: Refusal[]): Refusal[] {
  return [...new Map(refusals.map((refusal) => [formatRefusal(refusal), refusal])).values()];
}
