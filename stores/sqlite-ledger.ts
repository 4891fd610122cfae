import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { SQLInputValue } from 'node:sqlite';
import type { RolloutResult } from '../contracts/rollout';
import { KeyConflictError } from './ledger';
import type { BatchRow, DeclaredRollout, Ledger } from './ledger';
import { migrate } from './ledger-migrations';
import { neverRegraded, sqliteRegrades, withRegraded } from './sqlite-regrades';
import { sqliteEnds } from './sqlite-ends';
import { declaredOf, parseResult, text, toBatch, toRollout } from './ledger-rows';

/**
 * Opens the ledger in an SQLite file, made and migrated when needed. Any number of processes may have it open; a writer
 * waits up to ten seconds for another.
 */
export async function openLedger(path: string): Promise<Ledger> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const db = new DatabaseSync(path, { timeout: 10_000 });
  db.exec('PRAGMA journal_mode = WAL');
  // FULL: a reward that was recorded is there after a power loss too.
  db.exec('PRAGMA synchronous = FULL');
  migrate(db);

  const all = (sql: string, ...values: SQLInputValue[]) => db.prepare(sql).all(...values);
  const one = (sql: string, ...values: SQLInputValue[]) => db.prepare(sql).get(...values);

  function transaction<T>(body: () => T): T {
    db.exec('BEGIN IMMEDIATE');
    try {
      const value = body();
      db.exec('COMMIT');
      return value;
    } catch (error) {
      db.exec('ROLLBACK');
      throw error;
    }
  }

  /** Leaves a row that is there as it is. */
  function insert(table: string, row: Record<string, SQLInputValue>): void {
    const columns = Object.keys(row);
    const places = columns.map((column) => `:${column}`);
    const sql = `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${places.join(', ')}) ON CONFLICT DO NOTHING`;
    db.prepare(sql).run(row);
  }

  function declare(rollouts: DeclaredRollout[]): void {
    for (const r of rollouts) {
      insert('rollouts', {
        rollout_id: r.rolloutId,
        batch_id: r.batchId,
        task_id: r.taskId,
        task_index: r.index,
        identity: r.identity,
        agent: r.agent,
        model: r.model,
        parent_rollout_id: r.parentRolloutId,
        parent_step: r.parentStep,
      });
    }
  }

  function insertParts(result: RolloutResult): void {
    for (const attempt of result.attempts) {
      insert('attempts', {
        rollout_id: result.rolloutId,
        attempt: attempt.attempt,
        sandbox_id: attempt.sandboxId,
        failure_class: attempt.failure?.class ?? null,
        failure_type: attempt.failure?.type ?? null,
        stop_reason: attempt.stopReason,
      });
    }
    for (const verdict of result.verdicts) {
      insert('verdicts', {
        key: verdict.key,
        rollout_id: result.rolloutId,
        version: verdict.version,
        of: verdict.of,
        verdict: verdict.verdict,
        reward: verdict.reward,
        rewards: JSON.stringify(verdict.rewards),
        evidence_ref: verdict.evidenceRef,
      });
    }
    insert('usage', {
      rollout_id: result.rolloutId,
      model: result.model,
      model_calls: result.modelCalls,
      model_calls_reissued: result.modelCallsReissued,
      tool_calls: result.toolCalls,
      prompt_tokens: result.usage.promptTokens,
      completion_tokens: result.usage.completionTokens,
      cost_usd: result.usage.costUsd,
      worked_s: result.workedS,
    });
  }

  const storedResult = (rolloutId: string): RolloutResult | null => {
    const row = one('SELECT result FROM rollouts WHERE rollout_id = ?', rolloutId);
    return parseResult(row?.['result']);
  };

  function assertSameBatch(batch: BatchRow, rollouts: DeclaredRollout[]): void {
    const kept = one('SELECT * FROM batches WHERE batch_id = ?', batch.batchId);
    if (kept === undefined) return;
    const known = new Map(
      all(
        'SELECT rollout_id, identity FROM rollouts WHERE batch_id = ? AND parent_rollout_id IS NULL',
        batch.batchId,
      ).map((row) => [text(row['rollout_id']), text(row['identity'])]),
    );
    const changed = rollouts.find((r) => known.get(r.rolloutId) !== r.identity);
    if (changed === undefined && known.size === rollouts.length) return;
    const difference = changed
      ? `${changed.rolloutId} ${known.has(changed.rolloutId) ? 'is another one now' : 'is not in it'}`
      : `it has ${known.size} rollouts, not ${rollouts.length}`;
    throw new KeyConflictError(
      `batch ${batch.batchId} was declared before with other contents: ${difference}`,
    );
  }

  return {
    ...sqliteRegrades(db, insert),
    ...sqliteEnds(db),

    async declareBatch(batch, rollouts) {
      transaction(() => {
        assertSameBatch(batch, rollouts);
        insert('batches', {
          batch_id: batch.batchId,
          taskset: batch.taskset,
          declared: batch.declared,
          rollouts_ref: batch.rolloutsRef,
          created_at: batch.createdAt,
        });
        declare(rollouts);
      });
    },

    async declareRollouts(rollouts) {
      transaction(() => declare(rollouts));
    },

    async batch(batchId) {
      const row = one('SELECT * FROM batches WHERE batch_id = ?', batchId);
      return row === undefined ? null : toBatch(row);
    },

    async batches(limit) {
      return all('SELECT * FROM batches ORDER BY created_at DESC LIMIT ?', limit).map(toBatch);
    },

    async recordResult(result) {
      return transaction(() => {
        const kept = storedResult(result.rolloutId);
        if (kept !== null) return kept;
        declare([declaredOf(result)]);
        db.prepare(
          `UPDATE rollouts SET outcome = :outcome, reward = :reward, failure_class = :failureClass,
             result = :result, ended_at = :endedAt WHERE rollout_id = :rolloutId`,
        ).run({
          outcome: result.outcome,
          reward: result.reward,
          failureClass: result.failure?.class ?? null,
          result: JSON.stringify(result),
          endedAt: result.endedAt,
          rolloutId: result.rolloutId,
        });
        insertParts(result);
        return result;
      });
    },

    async rollout(rolloutId) {
      const row = one('SELECT * FROM rollouts WHERE rollout_id = ?', rolloutId);
      return row === undefined ? null : (withRegraded(db, [toRollout(row)])[0] ?? null);
    },

    async rollouts(filter) {
      const where: string[] = [];
      const values: SQLInputValue[] = [];
      const add = (condition: string, value: string) => {
        where.push(condition);
        values.push(value);
      };
      if (filter.batchId !== undefined) add('batch_id = ?', filter.batchId);
      if (filter.unscored) add(`outcome = ? AND ${neverRegraded}`, 'unscored');
      if (filter.failureClass !== undefined) add('failure_class = ?', filter.failureClass);
      if (filter.parentRolloutId !== undefined)
        add('parent_rollout_id = ?', filter.parentRolloutId);
      const condition = where.length === 0 ? '' : `WHERE ${where.join(' AND ')}`;
      // The newest `limit`, oldest first. SQLite takes -1 as no limit.
      const rows = all(
        `SELECT * FROM (SELECT rowid AS n, * FROM rollouts ${condition} ORDER BY n DESC LIMIT ?) ORDER BY n`,
        ...values,
        filter.limit ?? -1,
      );
      return withRegraded(db, rows.map(toRollout));
    },

    async results(rolloutIds) {
      return rolloutIds.map(storedResult).filter((result) => result !== null);
    },

    async close() {
      db.close();
    },
  };
}
