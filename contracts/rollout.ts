import { z } from 'zod';
import { failureClasses, failureTable } from './failures';
import type { FailureType } from './failures';
import {
  AgentSettings,
  CheckpointPolicy,
  ContinuationWay,
  KeepPolicy,
  Limits,
  OutcomeUnknownPolicy,
} from './task';
import { Usage } from './trajectory';

export const FailureClass = z.enum(failureClasses);
export type FailureClass = z.infer<typeof FailureClass>;

export const StopReason = z.enum([
  'done',
  'max_steps',
  'max_tokens',
  'max_cost',
  'agent_timeout',
  'run_timeout',
  'context_overflow',
  'malformed_tool_call',
  'refused',
  'sandbox_lost',
  'cancelled',
]);
export type StopReason = z.infer<typeof StopReason>;

export const Stage = z.enum([
  'create',
  'ready',
  'setup',
  'loop',
  'verify',
  'record',
  'stop',
  'ended',
]);
export type Stage = z.infer<typeof Stage>;

/** Only a reader of results that another release recorded meets one: its name is kept, and nothing here makes one. */
const TypeOfAnotherRelease = z.string().brand<'TypeOfAnotherRelease'>();

export const Failure = z.object({
  class: FailureClass,
  type: z.union([z.enum(Object.keys(failureTable) as FailureType[]), TypeOfAnotherRelease]),
  stage: Stage,
  message: z.string(),
});
export type Failure = z.infer<typeof Failure>;

export const AgentKind = z.enum(['model', 'oracle', 'nop']);
export type AgentKind = z.infer<typeof AgentKind>;

/** Which model answers, and where. Secrets are never here: the worker binds a key to a base URL by its own configuration. */
export const ModelChoice = z.object({
  /** `openai/<name>` or `scripted`; empty for agents that ask no model. */
  name: z.string(),
  baseUrl: z.string().optional(),
  settings: AgentSettings,
  /** From the price file, when the model is in it. */
  price: z.object({ promptUsdPerMTok: z.number(), completionUsdPerMTok: z.number() }).nullable(),
});
export type ModelChoice = z.infer<typeof ModelChoice>;

/** Where a continuation starts: a version, and the trajectory up to it. */
export const Continuation = z.object({
  parentRolloutId: z.string(),
  step: z.number(),
  /** With way `replay`: what the parent started from, or empty where it is created anew. */
  version: z.string(),
  /** The transcript to go on from: the parent's, or an edited one. */
  trajectory: z.string(),
  way: ContinuationWay.optional(),
  /** With way `replay`: the parent's transcript, whose tool calls are made again. */
  replay: z.string().optional(),
  /** Sandboxes between this one and its first ancestor's: 1 for a fork of a rollout that was none itself. */
  depth: z.number().int().min(1).optional(),
  /** Charged already at that step; a continuation's budget is what was left. */
  spent: z.object({ tokens: z.number(), costUsd: z.number(), workedS: z.number() }),
});
export type Continuation = z.infer<typeof Continuation>;

export const RolloutInput = z.object({
  rolloutId: z.string(),
  batchId: z.string(),
  taskId: z.string(),
  index: z.number(),
  /** Blob ref of a PackedTask. */
  taskRef: z.string(),
  /** Digest of task + agent + model + index: never of an address, port or key. */
  identity: z.string(),
  owner: z.string(),
  agent: AgentKind,
  model: ModelChoice,
  limits: Limits,
  checkpoints: CheckpointPolicy,
  onOutcomeUnknown: OutcomeUnknownPolicy,
  from: Continuation.optional(),
  /** Which of its versions are kept once it has ended; default `final`. */
  keep: KeepPolicy.optional(),
  /** Seconds for one answer of the model; default 600. */
  modelTimeoutS: z.number().positive().optional(),
  /** Seconds that a model endpoint may be away, limit the rate or answer garbage before the rollout ends unscored; default 900. */
  modelWaitS: z.number().positive().optional(),
  /** Of its sandbox, in seconds; calls, long waits and pauses renew it. Default 300. */
  leaseS: z.number().int().min(5).max(86_400).optional(),
  /** The namespace has the Rollout… search attributes: told by whoever starts the rollout. */
  searchAttributes: z.boolean().optional(),
});
export type RolloutInput = z.infer<typeof RolloutInput>;

export const Checkpoint = z.object({
  step: z.number(),
  version: z.string(),
  /** Head of the trajectory before the step. */
  trajectory: z.string(),
  spent: z.object({ tokens: z.number(), costUsd: z.number(), workedS: z.number() }),
});
export type Checkpoint = z.infer<typeof Checkpoint>;

export const Outcome = z.enum(['scored', 'unscored']);
export type Outcome = z.infer<typeof Outcome>;

/** One sandbox's worth of a rollout. */
export const AttemptResult = z.object({
  attempt: z.number(),
  sandboxId: z.string(),
  failure: Failure.nullable(),
  stopReason: StopReason.nullable(),
});
export type AttemptResult = z.infer<typeof AttemptResult>;

/** One call of the verifier. */
export const VerdictResult = z.object({
  key: z.string(),
  version: z.string(),
  verdict: z.enum(['reward', 'refused', 'none']),
  reward: z.number().nullable(),
  rewards: z.record(z.string(), z.number()),
  /** Blob ref of the VerifyEvidence. */
  evidenceRef: z.string(),
  summary: z.string(),
  /** `submission`: what the agent left; `start`: the untouched start version, judged to tell whose fault a missing verdict is. */
  of: z.enum(['submission', 'start']),
});
export type VerdictResult = z.infer<typeof VerdictResult>;

/** One grader's reward. */
export const GradeResult = z.object({
  /** Also its name among `rewards`. */
  name: z.string(),
  kind: z.enum(['verify', 'hud', 'bash', 'judge']),
  /** Who computed it: only a `verifier` did so where the agent could not write. */
  principal: z.enum(['verifier', 'controller', 'sandbox', 'model']),
  /** Null where it gave none; `summary` says why. */
  reward: z.number().nullable(),
  weight: z.number(),
  /** Rewards inside it: subscores, criteria. */
  rewards: z.record(z.string(), z.number()),
  /** Blob ref of its evidence. */
  evidenceRef: z.string(),
  summary: z.string(),
});
export type GradeResult = z.infer<typeof GradeResult>;

/** Whether the token ids of a rollout can be trained on: each turn's prompt begins with all of the turn before. */
export const TokenCheck = z.object({
  /** Turns that came with token ids. */
  turns: z.number(),
  /** Steps whose prompt does not extend the step before: the first 1,000 of them. */
  broken: z.array(z.number()),
});
export type TokenCheck = z.infer<typeof TokenCheck>;

export const RolloutResult = z.object({
  rolloutId: z.string(),
  batchId: z.string(),
  taskId: z.string(),
  index: z.number(),
  identity: z.string(),
  agent: AgentKind,
  model: z.string(),
  outcome: Outcome,
  reward: z.number().nullable(),
  rewards: z.record(z.string(), z.number()),
  failure: Failure.nullable(),
  stopReason: StopReason.nullable(),
  steps: z.number(),
  attempts: z.array(AttemptResult),
  modelCalls: z.number(),
  modelCallsReissued: z.number(),
  toolCalls: z.number(),
  usage: Usage,
  workedS: z.number(),
  sandboxId: z.string(),
  /** Head of the trajectory; empty when there was no step. */
  trajectory: z.string(),
  checkpoints: z.array(Checkpoint),
  verdicts: z.array(VerdictResult),
  /** Every grader's reward, also those that do not count. */
  grades: z.array(GradeResult).default([]),
  /** Null when the endpoint returned no token ids. */
  tokens: TokenCheck.nullable().default(null),
  /** Set when the untouched start version got a verdict and the submission got none. */
  submissionCaused: z.boolean(),
  lineage: z.object({
    parentRolloutId: z.string().nullable(),
    step: z.number().nullable(),
    version: z.string().nullable(),
    restored: z.array(z.object({ step: z.number(), version: z.string(), sandboxId: z.string() })),
  }),
  startedAt: z.string(),
  endedAt: z.string(),
});
export type RolloutResult = z.infer<typeof RolloutResult>;

/** What the `status` query answers. */
export const RolloutStatus = z.object({
  rolloutId: z.string(),
  stage: Stage,
  paused: z.boolean(),
  attempt: z.number(),
  step: z.number(),
  sandboxId: z.string(),
  modelCalls: z.number(),
  toolCalls: z.number(),
  trajectory: z.string(),
  checkpoints: z.array(Checkpoint),
  outcome: Outcome.nullable(),
  reward: z.number().nullable(),
});
export type RolloutStatus = z.infer<typeof RolloutStatus>;
