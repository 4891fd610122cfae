import { mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** A file for each sandbox: whose they are is known also while their engine does not answer. */
export function createNotes(folder: string) {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return {
    add: (sandboxId: string) => writeFileSync(path.join(folder, sandboxId), '', { mode: 0o600 }),
    remove: (sandboxId: string) => rmSync(path.join(folder, sandboxId), { force: true }),
    list: () => readdirSync(folder),
  };
}
