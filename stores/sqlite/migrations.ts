import type { DatabaseSync } from 'node:sqlite';

/** Applied in order, each once; what has been released is never edited. */
const migrations: string[] = [
  `
  CREATE TABLE batches (
    batch_id TEXT PRIMARY KEY,
    taskset TEXT NOT NULL,
    declared INTEGER NOT NULL,
    rollouts_ref TEXT NOT NULL,
    created_at TEXT NOT NULL
  ) STRICT;
  CREATE TABLE rollouts (
    rollout_id TEXT PRIMARY KEY,
    batch_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    task_index INTEGER NOT NULL,
    identity TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    parent_rollout_id TEXT,
    parent_step INTEGER,
    outcome TEXT,
    reward REAL,
    failure_class TEXT,
    result TEXT,
    ended_at TEXT
  ) STRICT;
  CREATE INDEX rollouts_by_batch ON rollouts (batch_id);
  CREATE INDEX rollouts_by_parent ON rollouts (parent_rollout_id);
  CREATE TABLE attempts (
    rollout_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    sandbox_id TEXT NOT NULL,
    failure_class TEXT,
    failure_type TEXT,
    stop_reason TEXT,
    PRIMARY KEY (rollout_id, attempt)
  ) STRICT;
  CREATE TABLE verdicts (
    key TEXT PRIMARY KEY,
    rollout_id TEXT NOT NULL,
    version TEXT NOT NULL,
    of TEXT NOT NULL,
    verdict TEXT NOT NULL,
    reward REAL,
    rewards TEXT NOT NULL,
    evidence_ref TEXT NOT NULL
  ) STRICT;
  CREATE INDEX verdicts_by_rollout ON verdicts (rollout_id);
  CREATE TABLE usage (
    rollout_id TEXT PRIMARY KEY,
    model TEXT NOT NULL,
    model_calls INTEGER NOT NULL,
    model_calls_reissued INTEGER NOT NULL,
    tool_calls INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    cost_usd REAL,
    worked_s REAL NOT NULL
  ) STRICT;
  `,
  `
  CREATE TABLE regrades (
    n INTEGER PRIMARY KEY,
    regrade_id TEXT NOT NULL,
    rollout_id TEXT NOT NULL,
    version TEXT NOT NULL,
    verdict TEXT,
    counts INTEGER NOT NULL,
    reward REAL,
    rewards TEXT NOT NULL,
    why TEXT,
    verifier_digest TEXT NOT NULL,
    at TEXT NOT NULL,
    UNIQUE (regrade_id, rollout_id)
  ) STRICT;
  CREATE INDEX regrades_by_rollout ON regrades (rollout_id, counts, n);
  `,
];

/**
 * Brings the ledger's tables to what this version of the code needs. Idempotent, and safe when several processes open a
 * new ledger at once.
 * @throws Error when the ledger was written by a newer version
 */
export function migrate(db: DatabaseSync): void {
  db.exec(
    'CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, applied_at TEXT NOT NULL) STRICT',
  );
  db.exec('BEGIN IMMEDIATE');
  try {
    const row = db.prepare('SELECT max(version) AS version FROM migrations').get();
    const applied = Number(row?.['version'] ?? 0);
    if (applied > migrations.length) {
      throw new Error(
        `the ledger is at version ${applied} and this code knows ${migrations.length}: use the newer code`,
      );
    }
    migrations.slice(applied).forEach((sql, i) => {
      db.exec(sql);
      db.prepare('INSERT INTO migrations (version, applied_at) VALUES (?, ?)').run(
        applied + i + 1,
        new Date().toISOString(),
      );
    });
    db.exec('COMMIT');
  } catch (error) {
    db.exec('ROLLBACK');
    throw error;
  }
}
