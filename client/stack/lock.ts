import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';

/**
 * Takes the one lock of a home, or returns null when another process has it. The lock is the kernel's (an exclusive SQLite
 * transaction), so it goes with its process, however that ends.
 */
export function takeLock(runFolder: string): { release(): void } | null {
  const db = new DatabaseSync(join(runFolder, 'lock.db'), { timeout: 200 });
  try {
    db.exec('BEGIN EXCLUSIVE');
  } catch {
    db.close();
    return null;
  }
  return { release: () => db.close() };
}
