import { isAlias, isMap, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import type { Document, Node, ParsedNode } from 'yaml';
import type { FieldPath } from './refusals';

/** A parsed YAML or JSON text that still knows the lines its fields stand on. */
export interface SourceDocument {
  value: unknown;
  /** The line of the field, or of the nearest thing around it; `depth` says how many parts of the path are there. */
  lineOf(path: FieldPath): { line: number; depth: number };
}

/** A text that is not YAML or not JSON. */
export class MalformedTextError extends Error {
  override readonly name = 'MalformedTextError';
  readonly line: number;

  constructor(line: number, message: string) {
    super(message);
    this.line = line;
  }
}

/** @throws MalformedTextError */
export function parseYaml(text: string): SourceDocument {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const error = document.errors[0];
  if (error) throw new MalformedTextError(lines.linePos(error.pos[0]).line, error.message);
  return { value: document.toJS(), lineOf: (path) => locate(document, lines, path, 1) };
}

/**
 * Strict JSON. YAML reads every JSON text too and keeps positions, so the same text is read twice; that also finds the
 * same key twice in one object, which JSON.parse passes over in silence.
 * @param firstLine  the line of the file this text starts on
 * @throws MalformedTextError
 */
export function parseJson(text: string, firstLine = 1): SourceDocument {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    const message = error instanceof SyntaxError ? error.message : String(error);
    throw new MalformedTextError(firstLine + lineOfJsonError(message, text) - 1, message);
  }
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const twice = document.errors.find((error) => error.code === 'DUPLICATE_KEY');
  if (twice) {
    const line = firstLine + lines.linePos(twice.pos[0]).line - 1;
    throw new MalformedTextError(line, 'the same key stands twice in one object');
  }
  return { value, lineOf: (path) => locate(document, lines, path, firstLine) };
}

function lineOfJsonError(message: string, text: string): number {
  const position = /at position (\d+)/.exec(message)?.[1];
  const before = position === undefined ? text : text.slice(0, Number(position));
  return before.split('\n').length;
}

function locate(
  document: Document.Parsed,
  lines: LineCounter,
  path: FieldPath,
  firstLine: number,
): { line: number; depth: number } {
  let node: Node | ParsedNode | null | undefined = document.contents;
  let at = node?.range?.[0] ?? 0;
  let depth = 0;
  for (const part of path) {
    if (isAlias(node)) node = node.resolve(document);
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === part);
      if (!pair) break;
      at = (pair.key as ParsedNode).range?.[0] ?? at; // a pair found in a parsed map has a parsed key
      node = pair.value as Node | null; // and a parsed value, if any
    } else if (isSeq(node) && typeof part === 'number') {
      node = node.items[part] as Node | undefined; // parsed, as above
      if (!node) break;
      at = node.range?.[0] ?? at;
    } else {
      break;
    }
    depth += 1;
  }
  return { line: firstLine + lines.linePos(at).line - 1, depth };
}
