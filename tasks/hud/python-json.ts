import { LosslessNumber } from 'lossless-json';

/** `json.dumps(value, sort_keys=True)` of a value from `parseAsWritten`: a default slug is a digest of Python's text. */
export function dumpAsPython(value: unknown): string {
  if (value instanceof LosslessNumber) return pythonNumber(value.value);
  if (typeof value === 'string') return pythonString(value);
  if (Array.isArray(value)) return `[${value.map(dumpAsPython).join(', ')}]`;
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).sort(([a], [b]) => byCodePoint(a, b));
    return `{${entries.map(([key, inner]) => `${pythonString(key)}: ${dumpAsPython(inner)}`).join(', ')}}`;
  }
  return String(value); // null, true, false
}

function pythonNumber(source: string): string {
  if (/^-?\d+$/.test(source)) return source === '-0' ? '0' : source;
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
