import { LosslessNumber, parse } from 'lossless-json';

/**
 * JSON whose numbers JavaScript may not be able to hold, as Python writes it: integers of any size, 1e999, and the bare words
 * `NaN`, `Infinity` and `-Infinity`, which are no JSON. In plain values such a number stands as `{"$number": "<digits>"}`
 * (contracts/denv.ts), and it is written as the number it was.
 */

/** Nearly every text has none of these, so no number in it needs a stand-in, and JSON.parse reads it faster. */
const suspects = /\d{16}|[eE]\+?\d{3}/;

const bareWords = /(?<![\w.])(?:NaN|-?Infinity)(?!\w)/g;

/** In JSON text, quotes stand unescaped only around strings: what looks like a stand-in is one. */
const standIns = /\{"\$number":"(NaN|-?Infinity|-?\d+)"\}/g;

/** JSON with each number as it was written, a `LosslessNumber`. @throws SyntaxError */
export function parseAsWritten(text: string): unknown {
  return parseNumbers(text, (digits) => new LosslessNumber(digits));
}

/** The plain values of what `parseAsWritten` gave. */
export function toPlain(value: unknown): unknown {
  if (value instanceof LosslessNumber) return plainNumber(value.value);
  if (Array.isArray(value)) return value.map(toPlain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, toPlain(inner)]));
}

/** Plain values of JSON, also as Python writes it. @throws SyntaxError */
export function parsePlain(text: string): unknown {
  if (!suspects.test(text)) {
    try {
      return JSON.parse(text);
    } catch {
      // Perhaps for a NaN: read again below.
    }
  }
  return parseNumbers(replaceBareWords(text), plainNumber);
}

/** JSON text of plain values, as Python reads it. */
export function stringifyPlain(value: unknown): string {
  return JSON.stringify(value).replace(standIns, '$1');
}

/** A number of plain values, or of its stand-in; null for what is neither. */
export function toNumber(value: unknown): number | null {
  if (typeof value === 'number') return value;
  if (typeof value !== 'object' || value === null || !('$number' in value)) return null;
  return typeof value.$number === 'string' ? Number(value.$number) : null;
}

/** Where a key comes twice the last one counts, as for JSON.parse and for Python. */
function parseNumbers(text: string, parseNumber: (digits: string) => unknown): unknown {
  return parse(text, null, { parseNumber, onDuplicateKey: ({ newValue }) => newValue });
}

function plainNumber(digits: string): unknown {
  const value = Number(digits);
  if (/^-?\d+$/.test(digits)) return Number.isSafeInteger(value) ? value : { $number: digits };
  return Number.isFinite(value) ? value : { $number: String(value) };
}

/** Replaces bare words by their stand-ins. Goes from quote to quote, so that what is inside strings is not looked at. */
function replaceBareWords(text: string): string {
  const parts: string[] = [];
  for (let at = 0; at < text.length;) {
    const quote = text.indexOf('"', at);
    const open = quote < 0 ? text.length : quote;
    const close = quote < 0 ? text.length : endOfString(text, quote);
    parts.push(
      text.slice(at, open).replace(bareWords, '{"$number":"$&"}'),
      text.slice(open, close),
    );
    at = close;
  }
  return parts.join('');
}

/** The place after a string's closing quote: the first one that an even number of backslashes precedes. */
function endOfString(text: string, open: number): number {
  for (let quote = text.indexOf('"', open + 1); quote >= 0; quote = text.indexOf('"', quote + 1)) {
    let backslashes = 0;
    while (text[quote - 1 - backslashes] === '\\') backslashes += 1;
    if (backslashes % 2 === 0) return quote + 1;
  }
  return text.length;
}
