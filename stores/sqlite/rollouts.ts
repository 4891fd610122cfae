import type { SQLInputValue } from 'node:sqlite';
import type { RolloutResult } from '../../contracts/rollout';
import type { DeclaredRollout, Ledger, RolloutFilter, RolloutRow } from '../ledger';
import type { Connection } from './connection';
import { neverRegraded, withRegraded } from './regrades';
import { parseResult, resultToDeclared, toRollout } from './rows';

/** Rollouts and the results that they ended with. */
export function rolloutMethods(
  db: Connection,
): Pick<Ledger, 'recordResult' | 'rollout' | 'rollouts' | 'results'> {
  return {
    async recordResult(result) {
      return db.transaction(() => {
        const kept = findResult(db, result.rolloutId);
        if (kept !== null) return kept;
        insertRollouts(db, [resultToDeclared(result)]);
        updateRollout(db, result);
        insertAttempts(db, result);
        insertVerdicts(db, result);
        insertUsage(db, result);
        return result;
      });
    },

    async rollout(rolloutId) {
      const row = db.one('SELECT * FROM rollouts WHERE rollout_id = ?', rolloutId);
      return row === undefined ? null : (withRegraded(db, [toRollout(row)])[0] ?? null);
    },

    rollouts: async (filter) => readRollouts(db, filter),

    async results(rolloutIds) {
      return rolloutIds.map((id) => findResult(db, id)).filter((result) => result !== null);
    },
  };
}

/** Adds rollouts without a result; those that are there stay as they are. */
export function insertRollouts(db: Connection, rollouts: DeclaredRollout[]): void {
  for (const r of rollouts) {
    db.insert('rollouts', {
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

function findResult(db: Connection, rolloutId: string): RolloutResult | null {
  const row = db.one('SELECT result FROM rollouts WHERE rollout_id = ?', rolloutId);
  return parseResult(row?.['result']);
}

function readRollouts(db: Connection, filter: RolloutFilter): RolloutRow[] {
  const where: string[] = [];
  const values: SQLInputValue[] = [];
  const add = (condition: string, value: string | undefined) => {
    if (value === undefined) return;
    where.push(condition);
    values.push(value);
  };
  add('batch_id = ?', filter.batchId);
  add(`outcome = ? AND ${neverRegraded}`, filter.unscored ? 'unscored' : undefined);
  add('failure_class = ?', filter.failureClass);
  add('parent_rollout_id = ?', filter.parentRolloutId);
  const condition = where.length === 0 ? '' : `WHERE ${where.join(' AND ')}`;
  // The newest `limit`, oldest first. SQLite takes -1 as no limit.
  const rows = db.all(
    `SELECT * FROM (SELECT rowid AS n, * FROM rollouts ${condition} ORDER BY n DESC LIMIT ?) ORDER BY n`,
    ...values,
    filter.limit ?? -1,
  );
  return withRegraded(db, rows.map(toRollout));
}

function updateRollout(db: Connection, result: RolloutResult): void {
  db.run(
    `UPDATE rollouts SET outcome = :outcome, reward = :reward, failure_class = :failureClass,
       result = :result, ended_at = :endedAt WHERE rollout_id = :rolloutId`,
    {
      outcome: result.outcome,
      reward: result.reward,
      failureClass: result.failure?.class ?? null,
      result: JSON.stringify(result),
      endedAt: result.endedAt,
      rolloutId: result.rolloutId,
    },
  );
}

function insertAttempts(db: Connection, { rolloutId, attempts }: RolloutResult): void {
  for (const attempt of attempts) {
    db.insert('attempts', {
      rollout_id: rolloutId,
      attempt: attempt.attempt,
      sandbox_id: attempt.sandboxId,
      failure_class: attempt.failure?.class ?? null,
      failure_type: attempt.failure?.type ?? null,
      stop_reason: attempt.stopReason,
    });
  }
}

function insertVerdicts(db: Connection, { rolloutId, verdicts }: RolloutResult): void {
  for (const verdict of verdicts) {
    db.insert('verdicts', {
      key: verdict.key,
      rollout_id: rolloutId,
      version: verdict.version,
      of: verdict.of,
      verdict: verdict.verdict,
      reward: verdict.reward,
      rewards: JSON.stringify(verdict.rewards),
      evidence_ref: verdict.evidenceRef,
    });
  }
}

function insertUsage(db: Connection, result: RolloutResult): void {
  db.insert('usage', {
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
