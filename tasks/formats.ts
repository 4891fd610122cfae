import { basename, extname } from 'node:path';
import { MalformedTextError, parseJson, parseYaml } from './document';
import type { SourceDocument } from './document';
import { parseAsWritten } from '../json/lossless';
import type { FieldPath, Refusal } from './refusals';
import { TasksetRefusedError } from './refusals';

/** A part of a taskset file: its value as written, and where its fields stand. */
export interface SourcePart {
  value: unknown;
  lineOf(path: FieldPath): { line: number; depth: number };
}

/** A taskset file taken apart, nothing checked but its outer form. */
export interface TasksetSource {
  format: 'native' | 'hud';
  name: SourcePart;
  defaults: SourcePart;
  rows: SourcePart[];
  /** Of HUD rows: each with its numbers as they were written. */
  asWritten: unknown[];
}

/**
 * Takes a taskset file apart by its ending: `.yaml`, `.yml`, `.json` (a mapping of `name`, `defaults`, `tasks`), or `.jsonl`
 * (a task a line; the first line may be a header of `name` and `defaults`, and without one the file's name is the name). HUD's
 * task rows are JSON too: one object, an array of them, or an object a line, told by an `env` without a `prompt`.
 * @throws TasksetRefusedError
 */
export function parseTaskset(file: string, text: string): TasksetSource {
  const plain = text.replace(/^\uFEFF/, '');
  switch (extname(file).toLowerCase()) {
    case '.yaml':
    case '.yml':
      return fromDocument(
        file,
        readText(file, '', () => parseYaml(plain)),
      );
    case '.json':
      return fromJson(file, plain);
    case '.jsonl':
    case '.ndjson':
      return fromLines(file, plain);
    default:
      throw refused(
        file,
        null,
        '',
        '',
        'the ending says no format',
        'name it .yaml, .json or .jsonl',
      );
  }
}

function fromJson(file: string, text: string): TasksetSource {
  const document = readText(file, '', () => parseJson(text));
  const { value } = document;
  if (!Array.isArray(value) && !isHudRow(value)) return fromDocument(file, document);
  const rows: unknown[] = Array.isArray(value) ? value : [value];
  if (rows.length === 0) throw refused(file, 1, '', '', 'no task in it', 'add a row');
  const written = parseAsWritten(text);
  return {
    format: 'hud',
    name: part(document, [], toTasksetName(file)),
    defaults: part(document, [], undefined),
    rows: rows.map((row, i) => part(document, Array.isArray(value) ? [i] : [], row)),
    asWritten: Array.isArray(written) ? written : [written],
  };
}

function fromDocument(file: string, document: SourceDocument): TasksetSource {
  const shape = 'start the file with `name: …` and `tasks:` with a list below it';
  if (!isObject(document.value)) throw refused(file, 1, '', '', 'not a taskset', shape);
  const known = ['name', 'defaults', 'tasks'];
  const refusals = Object.keys(document.value)
    .filter((key) => !known.includes(key))
    .map((key) => ({
      file,
      line: document.lineOf([key]).line,
      row: '',
      field: key,
      message: 'unknown field',
      remedy: `leave it out; known here: ${known.join(', ')}`,
    }));
  if (refusals.length > 0) throw new TasksetRefusedError(refusals);
  const tasks = document.value['tasks'];
  if (!Array.isArray(tasks) || tasks.length === 0) {
    const { line } = document.lineOf(['tasks']);
    throw refused(
      file,
      line,
      '',
      'tasks',
      'not a list of tasks',
      'give a list of at least one task',
    );
  }
  const { name, defaults } = document.value;
  return {
    format: 'native',
    name: part(document, ['name'], name),
    defaults: part(document, ['defaults'], defaults),
    rows: tasks.map((row, i) => part(document, ['tasks', i], row)),
    asWritten: [],
  };
}

function fromLines(file: string, text: string): TasksetSource {
  const documents = text.split('\n').flatMap((line, i) => {
    if (line.trim() === '') return [];
    const document = readText(file, `row ${i + 1}`, () => parseJson(line, i + 1));
    return [{ ...document, text: line }];
  });
  const first = documents[0];
  const header = first && isHeader(first.value) ? first : null;
  const rows = header ? documents.slice(1) : documents;
  if (rows.length === 0) throw refused(file, null, '', '', 'no task in it', 'add a task a line');
  if (header) {
    const unknown = Object.keys(header.value as object).find(
      (k) => k !== 'name' && k !== 'defaults',
    );
    if (unknown !== undefined) {
      const { line } = header.lineOf([unknown]);
      const remedy = 'leave it out; a header has `name` and `defaults`, a task has an `id`';
      throw refused(file, line, 'header', unknown, 'unknown field', remedy);
    }
  }
  const isHud = rows.some(({ value }) => isHudRow(value));
  if (isHud && header) {
    const remedy = 'leave the header out, or write the rows as tasks with a `hud`';
    throw refused(file, 1, 'header', '', 'HUD rows have no defaults', remedy);
  }
  const own = header && isObject(header.value) ? header.value : {};
  const place = header ?? { value: {}, lineOf: () => ({ line: 1, depth: 0 }) };
  return {
    format: isHud ? 'hud' : 'native',
    name: part(place, ['name'], own['name'] ?? toTasksetName(file)),
    defaults: part(place, ['defaults'], own['defaults']),
    rows: rows.map((row) => part(row, [], row.value)),
    asWritten: isHud ? rows.map(({ text }) => parseAsWritten(text)) : [],
  };
}

/** A file's name as a name of a taskset. */
function toTasksetName(file: string): string {
  const stem = basename(file, extname(file)).replace(/[^A-Za-z0-9._-]+/g, '-');
  return stem.replace(/^[^A-Za-z0-9]+/, '').slice(0, 64);
}

function isHudRow(value: unknown): boolean {
  return isObject(value) && 'env' in value && !('prompt' in value) && !('tasks' in value);
}

function part(
  document: Pick<SourceDocument, 'lineOf'>,
  prefix: FieldPath,
  value: unknown,
): SourcePart {
  return {
    value,
    lineOf(path) {
      const { line, depth } = document.lineOf([...prefix, ...path]);
      return { line, depth: Math.max(0, depth - prefix.length) };
    },
  };
}

function isHeader(value: unknown): boolean {
  return (
    isObject(value) &&
    ('name' in value || 'defaults' in value) &&
    !('id' in value || 'prompt' in value)
  );
}

function readText(file: string, row: string, read: () => SourceDocument): SourceDocument {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof MalformedTextError)) throw error;
    throw refused(file, error.line, row, '', `malformed: ${error.message}`, 'mend the text there');
  }
}

function refused(
  file: string,
  line: Refusal['line'],
  row: string,
  field: string,
  message: string,
  remedy: string,
): TasksetRefusedError {
  return new TasksetRefusedError([{ file, line, row, field, message, remedy }]);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
