/**
 * JSON as Python's own `json` reads and writes it, where that shows: a default slug is a digest of Python's text, in which
 * 1.0 is not 1 and 2**60 keeps all its digits.
 */

/** A number with the digits that stood in the text. */
export class WrittenNumber {
  constructor(readonly source: string) {}
}

type Reviver = (key: string, value: unknown, context: { source?: string }) => unknown;

/** JSON with each number as it was written. @throws SyntaxError */
export function parseAsWritten(text: string): unknown {
  const keep: Reviver = (_key, value, { source }) =>
    typeof value === 'number' ? new WrittenNumber(source ?? String(value)) : value;
  return JSON.parse(text, keep as (key: string, value: unknown) => unknown); // TypeScript does not know the third one yet
}

/** `json.dumps(value, sort_keys=True)` of a value from `parseAsWritten`. */
export function pythonDumps(value: unknown): string {
  if (value instanceof WrittenNumber) return pythonNumber(value.source);
  if (typeof value === 'string') return pythonString(value);
  if (Array.isArray(value)) return `[${value.map(pythonDumps).join(', ')}]`;
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).sort(([a], [b]) => byCodePoint(a, b));
    return `{${entries.map(([key, inner]) => `${pythonString(key)}: ${pythonDumps(inner)}`).join(', ')}}`;
  }
  return String(value); // null, true, false
}

/** As plain values; a number that a double or JSON cannot hold is a `{"$number": "<digits>"}` (contracts/denv.ts). */
export function sendable(value: unknown): unknown {
  if (value instanceof WrittenNumber) {
    const number = Number(value.source);
    if (!Number.isFinite(number)) return { $number: pythonNumber(value.source) };
    const tooLarge = isInteger(value.source) && !Number.isSafeInteger(number);
    return tooLarge ? { $number: value.source } : number;
  }
  if (Array.isArray(value)) return value.map(sendable);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, sendable(inner)]));
}

const isInteger = (source: string): boolean => /^-?\d+$/.test(source);

function pythonNumber(source: string): string {
  if (isInteger(source)) return source === '-0' ? '0' : source;
  const value = Number(source);
  if (!Number.isFinite(value)) return value > 0 ? 'Infinity' : '-Infinity';
  return pythonFloat(value);
}

/** `repr` of a float: the same shortest digits as here, with an exponent from 1e16 on and below 1e-4. */
function pythonFloat(value: number): string {
  const sign = value < 0 || Object.is(value, -0) ? '-' : '';
  const [mantissa = '0', exponentText = '0'] = Math.abs(value).toExponential().split('e');
  const exponent = Number(exponentText);
  if (exponent < -4 || exponent >= 16) {
    const power = String(Math.abs(exponent)).padStart(2, '0');
    return `${sign}${mantissa}e${exponent < 0 ? '-' : '+'}${power}`;
  }
  const digits = mantissa.replace('.', '');
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  const whole = digits.slice(0, exponent + 1).padEnd(exponent + 1, '0');
  return `${sign}${whole}.${digits.slice(exponent + 1) || '0'}`;
}

const shortEscapes: Record<string, string> = {
  '"': '\\"',
  '\\': '\\\\',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\f': '\\f',
  '\b': '\\b',
};

function pythonString(text: string): string {
  const escaped = text.replace(
    /["\\]|[^ -~]/g,
    (unit) => shortEscapes[unit] ?? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
  return `"${escaped}"`;
}

/** Bytes of UTF-8 sort as code points do, and JavaScript's own units do not. */
function byCodePoint(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}
