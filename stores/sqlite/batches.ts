import { KeyConflictError } from '../ledger';
import type { BatchRow, DeclaredRollout, Ledger } from '../ledger';
import type { Connection } from './connection';
import { insertRollouts } from './rollouts';
import { text, toBatch } from './rows';

/** Batches, and the rollouts that each declares. */
export function batchMethods(
  db: Connection,
): Pick<Ledger, 'declareBatch' | 'declareRollouts' | 'batch' | 'batches'> {
  return {
    async declareBatch(batch, rollouts) {
      db.transaction(() => {
        assertSameBatch(db, batch, rollouts);
        db.insert('batches', {
          batch_id: batch.batchId,
          taskset: batch.taskset,
          declared: batch.declared,
          rollouts_ref: batch.rolloutsRef,
          created_at: batch.createdAt,
        });
        insertRollouts(db, rollouts);
      });
    },

    async declareRollouts(rollouts) {
      db.transaction(() => insertRollouts(db, rollouts));
    },

    async batch(batchId) {
      const row = db.one('SELECT * FROM batches WHERE batch_id = ?', batchId);
      return row === undefined ? null : toBatch(row);
    },

    async batches(limit) {
      return db.all('SELECT * FROM batches ORDER BY created_at DESC LIMIT ?', limit).map(toBatch);
    },
  };
}

function assertSameBatch(db: Connection, batch: BatchRow, rollouts: DeclaredRollout[]): void {
  const kept = db.one('SELECT * FROM batches WHERE batch_id = ?', batch.batchId);
  if (kept === undefined) return;
  const rows = db.all(
    'SELECT rollout_id, identity FROM rollouts WHERE batch_id = ? AND parent_rollout_id IS NULL',
    batch.batchId,
  );
  const known = new Map(rows.map((row) => [text(row['rollout_id']), text(row['identity'])]));
  const changed = rollouts.find((r) => known.get(r.rolloutId) !== r.identity);
  if (changed === undefined && known.size === rollouts.length) return;
  const difference = changed
    ? `${changed.rolloutId} ${known.has(changed.rolloutId) ? 'is another one now' : 'is not in it'}`
    : `it has ${known.size} rollouts, not ${rollouts.length}`;
  throw new KeyConflictError(
    `batch ${batch.batchId} was declared before with other contents: ${difference}`,
  );
}
