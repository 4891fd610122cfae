import { createHash } from 'node:crypto';
import { join } from 'node:path';

/**
 * How the name of a blob becomes a path. Each segment is percent-encoded, so no name leaves the folder; the last one is
 * a file in a fan-out folder `@<2 hex>` and ends in `=`. Encoding never yields `@` or `=`, so `a` and `a/b` are both fine.
 */
export function encodeName(name: string): string {
  const segments = name.split('/').map(encodeSegment);
  const leaf = segments.pop() ?? '';
  const fanOut = createHash('sha256').update(leaf).digest('hex').slice(0, 2);
  return join(...segments, `@${fanOut}`, `${leaf}=`);
}

/** The names under a prefix that ends in `/`, sorted; `list` gives the entries of an encoded folder. */
export async function namesUnder(
  prefix: string,
  list: (path: string) => Promise<string[]>,
): Promise<string[]> {
  const names: string[] = [];
  const walk = async (path: string, decoded: string): Promise<void> => {
    for (const entry of await list(path)) {
      if (entry.endsWith('=')) names.push(decoded + decodeURIComponent(entry.slice(0, -1)));
      else if (entry.startsWith('@')) await walk(join(path, entry), decoded);
      else await walk(join(path, entry), `${decoded}${decodeURIComponent(entry)}/`);
    }
  };
  await walk(join(...prefix.slice(0, -1).split('/').map(encodeSegment)), prefix);
  return names.sort();
}

function encodeSegment(segment: string): string {
  if (segment === '') throw new Error('a blob name has no empty segment');
  const encoded = encodeURIComponent(segment).replace(/^\./, '%2E');
  if (encoded.length > 200) {
    throw new Error(`a segment of a blob name is too long (200 when encoded): ${segment}`);
  }
  return encoded;
}
