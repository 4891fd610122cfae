import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import path from 'node:path';
import type { TreeDiff } from '../../denv/drivers/driver';

/** What is in a directory: kind, mode and content of each entry, by its path. */
function contentOf(dir: string, inside = ''): Map<string, { text: string; bytes: number }> {
  const found = new Map<string, { text: string; bytes: number }>();
  for (const name of readdirSync(path.join(dir, inside)).toSorted()) {
    const at = path.join(dir, inside, name);
    const stat = lstatSync(at);
    const key = `${inside}/${name}`;
    if (stat.isDirectory()) {
      found.set(key, { text: `folder ${stat.mode}`, bytes: -1 });
      for (const [below, entry] of contentOf(dir, key)) found.set(below, entry);
      continue;
    }
    const content = stat.isSymbolicLink()
      ? `link ${readlinkSync(at)}`
      : stat.isFile()
        ? `file ${readFileSync(at).toString('latin1')}`
        : 'special';
    found.set(key, { text: content, bytes: stat.size });
  }
  return found;
}

/** Modes and empty folders count too, as they do for a driver that asks its file system. */
export function sameTree(a: string, b: string): boolean {
  const modes = (dir: string) =>
    [...contentOf(dir)].map(([at, { text }]) => [at, text, lstatSync(path.join(dir, at)).mode]);
  return JSON.stringify(modes(a)) === JSON.stringify(modes(b));
}

export function diffFolders(a: string, b: string, limit: number): TreeDiff {
  const [before, after] = [contentOf(a), contentOf(b)];
  const paths = [...new Set([...before.keys(), ...after.keys()])].toSorted();
  const files = paths.flatMap((at): TreeDiff['files'] => {
    const [old, now] = [before.get(at), after.get(at)].map((e) => (e && e.bytes >= 0 ? e : null));
    if (old && now) {
      return old.text === now.text ? [] : [{ path: at, change: 'changed', bytes: now.bytes }];
    }
    if (now) return [{ path: at, change: 'added', bytes: now.bytes }];
    return old ? [{ path: at, change: 'removed', bytes: old.bytes }] : [];
  });
  return { files: files.slice(0, limit), more: Math.max(0, files.length - limit) };
}
