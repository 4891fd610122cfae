import { z } from 'zod';
import { VerdictResult } from './rollout';

/** A verdict that was given later, by `regrade`: added to those of its rollout, never put in the place of one. */
export const Regrade = z.object({
  rolloutId: z.string(),
  regradeId: z.string(),
  /** Null where there was nothing to judge: `why` says so. */
  verdict: VerdictResult.nullable(),
  why: z.string().nullable(),
  verifierDigest: z.string(),
  at: z.string(),
  /** The verdict that counts now. */
  current: z.boolean(),
});
export type Regrade = z.infer<typeof Regrade>;

export const RegradeInput = z.object({
  regradeId: z.string(),
  /** Each with the task whose verifier judges it: another one than it was run with, where a verifier was given. */
  rollouts: z.array(z.object({ rolloutId: z.string(), version: z.string(), taskRef: z.string() })),
  concurrency: z.number().int().min(1).max(64),
});
export type RegradeInput = z.infer<typeof RegradeInput>;

export const RegradeResult = z.object({
  regradeId: z.string(),
  judged: z.number(),
  missing: z.number(),
});
export type RegradeResult = z.infer<typeof RegradeResult>;
