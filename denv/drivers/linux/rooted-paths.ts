import { chmodSync, chownSync, lstatSync, mkdirSync, readlinkSync } from 'node:fs';
import path from 'node:path';

/**
 * Paths inside a tree, resolved as a process in it would: a link leads within the tree, never to the host. Safe only in a
 * tree where no process runs, since nothing holds the components still between look and use.
 */

const linkLimit = 40;

/** @returns the host path of `inside`, every link on the way followed; what does not exist yet is taken as it is named */
export function resolveInRoot(root: string, inside: string): string {
  const todo = inside.split('/').reverse();
  const done: string[] = [];
  let links = 0;
  while (todo.length > 0) {
    const part = todo.pop() as string; // The loop's condition says there is one.
    if (part === '' || part === '.') continue;
    if (part === '..') {
      done.pop();
      continue;
    }
    const at = path.join(root, ...done, part);
    const stat = lstatSync(at, { throwIfNoEntry: false });
    if (!stat?.isSymbolicLink()) {
      done.push(part);
      continue;
    }
    links += 1;
    if (links > linkLimit) throw new Error(`${inside}: too many links`);
    const target = readlinkSync(at);
    if (target.startsWith('/')) done.length = 0;
    todo.push(...target.split('/').reverse());
  }
  return path.join(root, ...done);
}

/** Makes a directory of the tree with its parents; of those that are there already, nothing changes. */
export function makeDirIn(
  root: string,
  inside: string,
  want: { mode: number; owner: number } = { mode: 0o755, owner: 0 },
): string {
  const at = resolveInRoot(root, inside);
  const missing: string[] = [];
  for (let dir = at; !lstatSync(dir, { throwIfNoEntry: false }); dir = path.dirname(dir)) {
    missing.unshift(dir);
  }
  for (const dir of missing) {
    mkdirSync(dir);
    chmodSync(dir, dir === at ? want.mode : 0o755);
  }
  if (missing.length > 0) chownSync(at, want.owner, want.owner);
  return at;
}
