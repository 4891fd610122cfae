import { z } from 'zod';
import type { Complaint, FieldPath } from './refusals';
import { unsupportedField } from './target-limits';

type Issue = z.core.$ZodIssue;

/** Complains of each field that a schema refuses, and says what to write in its place. */
export function schemaComplaints(schema: z.ZodType, value: unknown): Complaint[] {
  const parsed = schema.safeParse(value);
  if (parsed.success) return [];
  return parsed.error.issues.flatMap((issue) => issueComplaints(issue, [], schema, value));
}

function issueComplaints(
  issue: Issue,
  above: FieldPath,
  schema: z.ZodType,
  root: unknown,
): Complaint[] {
  const path = [...above, ...issue.path.map((part) => (typeof part === 'symbol' ? '' : part))];
  const found = path.reduce<unknown>(
    (value, part) =>
      typeof value === 'object' && value !== null ? Reflect.get(value, part) : undefined,
    root,
  );
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => unknownField([...path, key], key, fieldsAt(schema, path, root)));
  }
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const inner = issue.errors.find((errors) => errors.every((error) => error.path.length > 0));
    if (inner && typeof found === 'object') {
      return inner.flatMap((error) => issueComplaints(error, path, schema, root));
    }
    const wanted = issue.errors.flatMap((errors) => errors.map(wantedBy)).join(', or ');
    return [{ path, message: `${show(found)} does not fit`, remedy: `give ${wanted}` }];
  }
  if (found === undefined) return [{ path, message: 'missing', remedy: `give ${wantedBy(issue)}` }];
  return [{ path, message: `${show(found)} does not fit`, remedy: `give ${wantedBy(issue)}` }];
}

function unknownField(path: FieldPath, key: string, known: string[]): Complaint {
  const unsupported = unsupportedField(path.join('.'));
  if (unsupported) return { path, ...unsupported };
  const near = known.find((name) => distance(name.toLowerCase(), key.toLowerCase()) <= 2);
  const remedy = near
    ? `did you mean \`${near}\`?`
    : `leave it out; known here: ${known.join(', ')}`;
  return { path, message: 'unknown field', remedy };
}

/** What an issue asks for, to be read after "give". */
function wantedBy(issue: Issue): string {
  switch (issue.code) {
    case 'invalid_type':
      return typeWords[issue.expected] ?? issue.expected;
    case 'invalid_value':
      return `one of ${issue.values.map((value) => `\`${String(value)}\``).join(', ')}`;
    case 'invalid_union':
      // Only a union with a discriminator says nothing of its options' own errors.
      return 'options' in issue && Array.isArray(issue.options)
        ? `one of ${issue.options.map((option: unknown) => `\`${String(option)}\``).join(', ')}`
        : 'another value';
    case 'too_small':
      if (issue.origin === 'array') return `a list of at least ${issue.minimum}`;
      if (issue.origin === 'string') return 'a text that is not empty';
      return `a number ${issue.inclusive ? 'of at least' : 'above'} ${issue.minimum}`;
    case 'too_big':
      if (issue.origin === 'number') return `a number of at most ${issue.maximum}`;
      return `at most ${issue.maximum}`;
    case 'invalid_format':
      return issue.message;
    case 'unrecognized_keys':
    case 'not_multiple_of':
    case 'invalid_key':
    case 'invalid_element':
      return `a value that fits (${issue.message})`;
    // Our own words, which begin with `give`.
    case 'custom':
      return issue.message.replace(/^give /, '');
  }
}

const typeWords: Record<string, string> = {
  string: 'a text',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a mapping of fields',
  record: 'a mapping of names to values',
};

function show(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > 60 ? `${text.slice(0, 57)}...` : text;
}

/** Names of the fields that a schema knows at a path. In a union, they are those of the option that `value` chose by its `kind`. */
function fieldsAt(schema: z.ZodType, path: FieldPath, value: unknown): string[] {
  const inner = unwrap(schema);
  if (inner instanceof z.ZodUnion) {
    const options = inner.options as z.ZodType[]; // zod's own type here is its core's
    const fields = options.map((option) => ({ option, names: fieldsAt(option, path, value) }));
    const kind =
      typeof value === 'object' && value !== null ? Reflect.get(value, 'kind') : undefined;
    const chosen = fields.find(({ option }) => isOfKind(option, kind));
    return chosen?.names ?? fields.flatMap(({ names }) => names);
  }
  const [part, ...rest] = path;
  if (inner instanceof z.ZodObject) {
    if (part === undefined) return Object.keys(inner.shape);
    const next: unknown = inner.shape[part];
    const below =
      typeof value === 'object' && value !== null ? Reflect.get(value, part) : undefined;
    return next instanceof z.ZodType ? fieldsAt(next, rest, below) : [];
  }
  if (inner instanceof z.ZodArray && typeof part === 'number') {
    const below: unknown = Array.isArray(value) ? value[part] : undefined;
    return fieldsAt(inner.element as z.ZodType, rest, below); // as above
  }
  return [];
}

function isOfKind(option: z.ZodType, kind: unknown): boolean {
  if (!(option instanceof z.ZodObject)) return false;
  const field: unknown = option.shape['kind'];
  return field instanceof z.ZodLiteral && [...field.values].includes(kind as string);
}

function unwrap(schema: z.ZodType): z.ZodType {
  const wrapped = schema instanceof z.ZodOptional || schema instanceof z.ZodNullable;
  return wrapped ? unwrap(schema.unwrap() as z.ZodType) : schema; // zod's own type here is its core's
}

/** Edits between two words. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const change = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(change, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
