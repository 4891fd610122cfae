import type { Regrade } from '../contracts/regrade';
import type { RolloutInput, RolloutResult } from '../contracts/rollout';

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

/** A rollout with this input, as the ledger declares it. */
export function toDeclared(input: RolloutInput): DeclaredRollout {
  return {
    rolloutId: input.rolloutId,
    batchId: input.batchId,
    taskId: input.taskId,
    index: input.index,
    identity: input.identity,
    agent: input.agent,
    model: input.model.name,
    parentRolloutId: input.from?.parentRolloutId ?? null,
    parentStep: input.from?.step ?? null,
  };
}

export interface RolloutRow extends DeclaredRollout {
  /** Null while it runs. */
  result: RolloutResult | null;
  /** The later verdict that counts now, where there is one: `result` is what was recorded first, and stays so. */
  regraded?: RegradeRow;
}

/** A verdict given later, and what it makes of its rollout. */
export interface RegradeRow extends Regrade {
  /** What was judged, or should have been. */
  version: string;
  /** Of the rollout by that verdict: with other graders beside the verifier, combined with what they said. */
  reward: number | null;
  rewards: Record<string, number>;
}

/** What retention needs to know of a rollout. */
export interface RolloutEnd {
  rolloutId: string;
  batchId: string;
  taskId: string;
  parentRolloutId: string | null;
  /** Null while it has no result. */
  endedAt: string | null;
  /** The current one. */
  reward: number | null;
  /** Versions that its own verdicts judged as its submission, and those that a later verdict judged. */
  judged: { version: string; verdict: 'reward' | 'refused' | 'none'; later: boolean }[];
}

/** Rollouts by id, of batches, those forked from one of these, or every continuation without a result. */
export type EndFilter =
  | { rolloutIds: string[] }
  | { batchIds: string[] }
  | { parents: string[] }
  | { openContinuations: true };

export interface RolloutFilter {
  batchId?: string;
  /** Ended without a score, and given none later. */
  unscored?: boolean;
  failureClass?: string;
  parentRolloutId?: string;
  limit?: number;
}

/**
 * Rollouts, attempts, verdicts given at their end and later, and usage. Every write is idempotent by its id, and the first
 * recorded result of a rollout wins: writing another one leaves the ledger as it was. Every method throws StoreError when the
 * ledger is away and may come back.
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
  /**
   * Adds a verdict to those of a rollout. Idempotent: the first recorded one of a regrade and a rollout wins. The newest one with
   * a verdict is the rollout's current one; the rollout's own result is never changed.
   * @returns what the ledger now holds
   */
  recordRegrade(regrade: Omit<RegradeRow, 'current'>): Promise<RegradeRow>;
  /** In the order in which they were recorded. */
  regrades(of: { regradeId: string } | { rolloutId: string }): Promise<RegradeRow[]>;
  /** For retention: small rows, whatever the results hold. */
  ends(filter: EndFilter): Promise<RolloutEnd[]>;
  close(): Promise<void>;
}

export class KeyConflictError extends Error {
  override readonly name = 'KeyConflictError';
}
