import type { SQLOutputValue } from 'node:sqlite';
import type { RolloutResult, VerdictResult } from '../../contracts/rollout';
import type { BatchRow, DeclaredRollout, RegradeRow, RolloutRow } from '../ledger';

/** A row as SQLite gives it. */
export type Row = Record<string, SQLOutputValue>;

export const text = (value: SQLOutputValue | undefined): string =>
  typeof value === 'string' ? value : '';
export const textOrNull = (value: SQLOutputValue | undefined) =>
  value == null ? null : text(value);
export const numberOrNull = (value: SQLOutputValue | undefined) =>
  value == null ? null : Number(value);

/** Only recordResult writes results, so what is read back has their type. */
export function parseResult(value: SQLOutputValue | undefined): RolloutResult | null {
  return typeof value === 'string' ? (JSON.parse(value) as RolloutResult) : null;
}

export function toBatch(row: Row): BatchRow {
  return {
    batchId: text(row['batch_id']),
    taskset: text(row['taskset']),
    declared: Number(row['declared']),
    rolloutsRef: text(row['rollouts_ref']),
    createdAt: text(row['created_at']),
  };
}

export function toRollout(row: Row): RolloutRow {
  return {
    rolloutId: text(row['rollout_id']),
    batchId: text(row['batch_id']),
    taskId: text(row['task_id']),
    index: Number(row['task_index']),
    identity: text(row['identity']),
    agent: text(row['agent']),
    model: text(row['model']),
    parentRolloutId: textOrNull(row['parent_rollout_id']),
    parentStep: numberOrNull(row['parent_step']),
    result: parseResult(row['result']),
  };
}

/** Only recordRegrade writes verdicts and rewards, so what is read back has their types. */
export function toRegrade(row: Row): RegradeRow {
  const verdict = textOrNull(row['verdict']);
  return {
    regradeId: text(row['regrade_id']),
    rolloutId: text(row['rollout_id']),
    version: text(row['version']),
    verdict: verdict === null ? null : (JSON.parse(verdict) as VerdictResult),
    reward: numberOrNull(row['reward']),
    rewards: JSON.parse(text(row['rewards'])) as Record<string, number>,
    why: textOrNull(row['why']),
    verifierDigest: text(row['verifier_digest']),
    at: text(row['at']),
    current: row['current'] === 1,
  };
}

/** The rollout that a result declares by itself, where nobody declared it before. */
export function resultToDeclared(result: RolloutResult): DeclaredRollout {
  return {
    rolloutId: result.rolloutId,
    batchId: result.batchId,
    taskId: result.taskId,
    index: result.index,
    identity: result.identity,
    agent: result.agent,
    model: result.model,
    parentRolloutId: result.lineage.parentRolloutId,
    parentStep: result.lineage.step,
  };
}
