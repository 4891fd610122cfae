import type { Ledger } from '../ledger';
import { batchMethods } from './batches';
import { Connection } from './connection';
import { endMethods } from './ends';
import { regradeMethods } from './regrades';
import { rolloutMethods } from './rollouts';

/**
 * Opens the ledger in an SQLite file, made and migrated when needed.
 * @throws StoreError, here and by every method, when the file cannot be read or written now
 */
export async function openLedger(path: string): Promise<Ledger> {
  const db = new Connection(path);
  return {
    ...batchMethods(db),
    ...rolloutMethods(db),
    ...regradeMethods(db),
    ...endMethods(db),
    close: async () => db.close(),
  };
}
