import type { RolloutResult } from '../contracts/rollout';

export interface BatchRow {
  batchId: string;
  taskset: string;
  declared: number;
  rolloutsRef: string;
  createdAt: string;
}

export interface DeclaredRollout {
  rolloutId: string;
  batchId: string;
  taskId: string;
  index: number;
  identity: string;
  agent: string;
  model: string;
  parentRolloutId: string | null;
  parentStep: number | null;
}

export interface RolloutRow extends DeclaredRollout {
  /** Null while it runs. */
  result: RolloutResult | null;
}

export interface RolloutFilter {
  batchId?: string;
  /** Ended without a score. */
  unscored?: boolean;
  failureClass?: string;
  parentRolloutId?: string;
  limit?: number;
}

/**
 * Rollouts, attempts, verdicts and usage. Every write is idempotent by its id, and the first recorded result of a rollout
 * wins: writing another one leaves the ledger as it was.
 */
export interface Ledger {
  /** @throws KeyConflictError when the batch exists with other contents */
  declareBatch(batch: BatchRow, rollouts: DeclaredRollout[]): Promise<void>;
  /** Adds rollouts to a batch (continuations). Idempotent. */
  declareRollouts(rollouts: DeclaredRollout[]): Promise<void>;
  batch(batchId: string): Promise<BatchRow | null>;
  batches(limit: number): Promise<BatchRow[]>;
  /** Records a result with its attempts, verdicts and usage in one transaction. Returns what the ledger now holds. */
  recordResult(result: RolloutResult): Promise<RolloutResult>;
  rollout(rolloutId: string): Promise<RolloutRow | null>;
  rollouts(filter: RolloutFilter): Promise<RolloutRow[]>;
  /** Results of those that have one. */
  results(rolloutIds: string[]): Promise<RolloutResult[]>;
  close(): Promise<void>;
}

export class KeyConflictError extends Error {
  override readonly name = 'KeyConflictError';
}
