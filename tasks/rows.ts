import { readFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { Task, Taskset } from '../contracts/task';
import { schemaComplaints } from './complaints';
import { fileComplaints } from './file-complaints';
import { parseTaskset } from './formats';
import type { SourcePart, TasksetSource } from './formats';
import { loadHudRows } from './hud/rows';
import type { LoadContext, LoadedTaskset } from './loaded-taskset';
import { toRefusal, repeatComplaints } from './complaint-lines';
import { mergeDefaults } from './merge';
import { placeNativeTask } from './native-placement';
import type { LocalTree, Place } from './placement';
import { formatRefusal, TasksetRefusedError } from './refusals';
import type { Complaint, Refusal } from './refusals';
import { unsupportedValues } from './target-limits';
import type { ImagePlaces } from './target-limits';

/**
 * Reads a taskset and checks all of it: every row, every field, every file it names. Reads only.
 * @param place  says where HUD tasks run that do not say so themselves
 * @throws TasksetRefusedError with all that is wrong, by file, line, row and field
 */
export async function loadTaskset(
  path: string,
  places: ImagePlaces,
  place?: Place,
): Promise<LoadedTaskset> {
  const source = parseTaskset(path, await readTasksetFile(path));
  const folder = dirname(resolve(path));
  return source.format === 'hud'
    ? loadHudRows(source, { file: path, folder, places, place })
    : loadNativeRows(source, { file: path, folder, places, place });
}

async function loadNativeRows(source: TasksetSource, context: LoadContext): Promise<LoadedTaskset> {
  const { file, folder, places } = context;
  const refusals: Refusal[] = [];
  const name = Taskset.shape.name.safeParse(source.name.value);
  if (!name.success) {
    refusals.push({
      file,
      line: source.name.lineOf([]).line,
      row: '',
      field: 'name',
      message: source.name.value === undefined ? 'missing' : 'does not fit',
      remedy:
        'give a name of letters, digits, ".", "_" and "-", at most 64, as in `name: my-tasks`',
    });
  }
  refusals.push(...defaultsRefusals(file, source.defaults));

  const tasks: Task[] = [];
  const trees = new Map<string, LocalTree[]>();
  const firstLines = new Map<string, number>();
  for (const [i, row] of source.rows.entries()) {
    const id = rowId(row.value);
    const label = id === undefined ? `row ${i + 1}` : `task "${id}"`;
    const placed = await placeNativeTask(
      mergeDefaults(source.defaults.value, row.value),
      context.place,
    );
    const complaints = [
      ...placed.complaints,
      ...rowComplaints(row.value, placed.task, folder, places),
      ...(id === undefined ? [] : repeatComplaints(firstLines, id, 'id', row)),
    ];
    refusals.push(...complaints.map((c) => toRefusal(file, c, label, row, source.defaults)));
    if (complaints.length > 0) continue;
    const task = Task.parse(placed.task);
    tasks.push(task);
    if (placed.trees.length > 0) trees.set(task.id, placed.trees);
  }

  if (refusals.length > 0 || !name.success) throw new TasksetRefusedError(withoutRepeats(refusals));
  return { name: name.data, folder, tasks, trees };
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

/** Defaults need not be whole: a task may bring the missing image. All else is checked as in a task. */
function defaultsRefusals(file: string, defaults: SourcePart): Refusal[] {
  if (defaults.value === undefined || defaults.value === null) return [];
  const checkedInTasks = ['environment.image', 'runtime'];
  return schemaComplaints(Taskset.shape.defaults.unwrap(), defaults.value)
    .filter(
      ({ path, message }) => message !== 'missing' && !checkedInTasks.includes(path.join('.')),
    )
    .map((complaint) => toRefusal(file, complaint, 'defaults', defaults));
}

function rowComplaints(
  row: unknown,
  task: unknown,
  folder: string,
  places: ImagePlaces,
): Complaint[] {
  if (typeof row !== 'object' || row === null || Array.isArray(row)) {
    return [{ path: [], message: 'not a task', remedy: 'give a mapping with `id` and `prompt`' }];
  }
  const unsupported = unsupportedValues(task, places);
  const named = new Set(unsupported.map(({ path }) => path.join('.')));
  const others = schemaComplaints(Task, task).filter(
    // An environment that is not there at all has been complained of as its missing image.
    ({ path, message }) =>
      !named.has(path.join('.')) && !(message === 'missing' && path.join('.') === 'environment'),
  );
  return [...unsupported, ...others, ...fileComplaints(task, folder)];
}

function rowId(row: unknown): string | undefined {
  const id: unknown = Reflect.get(Object(row), 'id');
  return typeof id === 'string' ? id : undefined;
}

/** One fault in the defaults shows in every task. */
function withoutRepeats(refusals: Refusal[]): Refusal[] {
  return [...new Map(refusals.map((refusal) => [formatRefusal(refusal), refusal])).values()];
}
