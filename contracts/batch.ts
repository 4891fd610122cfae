import { z } from 'zod';
import { Failure, Outcome, RolloutInput, StopReason } from './rollout';
import { Usage } from './trajectory';

export const BatchInput = z.object({
  batchId: z.string(),
  /** Blob ref of a RolloutInput[]: the declared rollouts, in order. */
  rolloutsRef: z.string(),
  declared: z.number().int().min(1).max(1000),
  concurrency: z.number().int().min(1).max(1000),
});
export type BatchInput = z.infer<typeof BatchInput>;

export const BatchRollouts = z.array(RolloutInput);

export const BatchResult = z.object({
  batchId: z.string(),
  declared: z.number(),
  scored: z.number(),
  unscored: z.number(),
});
export type BatchResult = z.infer<typeof BatchResult>;

export const BatchProgress = BatchResult.extend({ started: z.number(), running: z.number() });
export type BatchProgress = z.infer<typeof BatchProgress>;

/** One declared rollout, as `run --json` prints it. */
export const RolloutSummary = z.object({
  rolloutId: z.string(),
  task: z.string(),
  index: z.number(),
  outcome: Outcome,
  reward: z.number().nullable(),
  rewards: z.record(z.string(), z.number()),
  /** Where a later verdict counts: reward and outcome are by that, and `first` is the reward it ended with. */
  regraded: z.object({ regradeId: z.string(), first: z.number().nullable() }).optional(),
  failure: Failure.nullable(),
  stopReason: StopReason.nullable(),
  steps: z.number(),
  attempts: z.number(),
  modelCalls: z.number(),
  modelCallsReissued: z.number(),
  toolCalls: z.number(),
  usage: Usage,
  sandboxId: z.string(),
});
export type RolloutSummary = z.infer<typeof RolloutSummary>;

/** Means are over scored rollouts; `scored`/`declared` is their coverage. */
export const BatchReport = z.object({
  batchId: z.string(),
  declared: z.number(),
  scored: z.number(),
  unscored: z.number(),
  meanReward: z.number().nullable(),
  rollouts: z.array(RolloutSummary),
});
export type BatchReport = z.infer<typeof BatchReport>;
