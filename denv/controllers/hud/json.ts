/**
 * JSON as Python writes it: bare `NaN`, `Infinity`, `-Infinity`, and integers of any size. What JavaScript cannot hold stands
 * as `{"$number": "NaN"}` or `{"$number": "<digits>"}`, and goes back to Python as the number it was.
 */

/** What may need a stand-in; a text without it, nearly every one, is read by JSON.parse alone. */
const SUSPECT = /\d{16}|[eE]\+?\d{3}/;

const NUMBERS =
  /(?<![\w.])(?:NaN|-?Infinity)|(?<![\d.eE+-])-?[1-9]\d{15,}(?![\d.eE])|(?<![\d.eE+-])-?\d+(?:\.\d+)?[eE]\+?\d{3,}/g;

/** In JSON text, quotes stand unescaped only around strings: what looks like a stand-in is one. */
const STAND_INS = /\{"\$number":"(NaN|-?Infinity|-?\d+)"\}/g;

/** @throws SyntaxError when it is not JSON, even as Python writes it */
export function parseHudJson(text: string): unknown {
  if (!SUSPECT.test(text)) {
    try {
      return JSON.parse(text);
    } catch {
      // Perhaps for a NaN: read again below.
    }
  }
  return JSON.parse(withStandIns(text));
}

export function writeHudJson(value: unknown): string {
  return JSON.stringify(value).replace(STAND_INS, '$1');
}

/** A number of parsed JSON, or of its stand-in; null for what is neither. */
export function numberOf(value: unknown): number | null {
  if (typeof value === 'number') return value;
  if (typeof value !== 'object' || value === null || !('$number' in value)) return null;
  return typeof value.$number === 'string' ? Number(value.$number) : null;
}

/** Goes from quote to quote, so that what is inside strings is passed over and not looked at. */
function withStandIns(text: string): string {
  const parts: string[] = [];
  let copied = 0;
  let at = 0;
  while (at < text.length) {
    const quote = text.indexOf('"', at);
    const end = quote < 0 ? text.length : quote;
    if (end - at > 2) {
      const between = text.slice(at, end);
      const replaced = between.replace(NUMBERS, standIn);
      if (replaced !== between) {
        parts.push(text.slice(copied, at), replaced);
        copied = end;
      }
    }
    if (quote < 0) break;
    at = endOfString(text, quote);
  }
  parts.push(text.slice(copied));
  return parts.join('');
}

/** The place after a string's closing quote: the first one that an even number of backslashes precedes. */
function endOfString(text: string, open: number): number {
  let quote = text.indexOf('"', open + 1);
  while (quote >= 0) {
    let backslashes = 0;
    while (text[quote - 1 - backslashes] === '\\') backslashes += 1;
    if (backslashes % 2 === 0) return quote + 1;
    quote = text.indexOf('"', quote + 1);
  }
  return text.length;
}

function standIn(token: string): string {
  const value = Number(token);
  if (Number.isSafeInteger(value)) return token;
  if (Number.isFinite(value)) return /[.eE]/.test(token) ? token : `{"$number":"${token}"}`;
  if (/^-?\d+$/.test(token)) return `{"$number":"${token}"}`;
  return `{"$number":"${Number.isNaN(value) ? 'NaN' : value > 0 ? 'Infinity' : '-Infinity'}"}`;
}
