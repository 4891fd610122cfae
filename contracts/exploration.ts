import { z } from 'zod';
import { Outcome, RolloutInput } from './rollout';

/** What an exploration may use up, over all of its continuations. */
export const ExploreLimits = z.object({
  /** Continuations that run at once. */
  concurrency: z.number().int().min(1).max(64),
  /** In all. */
  maxContinuations: z.number().int().min(1).max(10_000),
  /** Forks of forks. */
  maxDepth: z.number().int().min(1).max(100),
  /** Of all continuations together. */
  maxCostUsd: z.number().positive().optional(),
  maxTokens: z.number().int().positive().optional(),
  /** The first continuation with such a reward ends it; those that still run are cancelled. */
  stopAtReward: z.number().optional(),
});
export type ExploreLimits = z.infer<typeof ExploreLimits>;

/** `flat`: `count` from the chosen step. `tree`: `branch` at each of `depth` levels. `value`: `count` from every `every`-th step. */
export const StrategyChoice = z.object({
  name: z.string(),
  count: z.number().int().min(1).max(1000),
  depth: z.number().int().min(1).max(100),
  branch: z.number().int().min(1).max(64),
  every: z.number().int().min(1).max(1000),
  /** Where to begin: a step of the root, its last checkpoint, or the one whose value is the least certain. */
  at: z.union([z.number().int().min(1), z.enum(['last', 'uncertain'])]),
});
export type StrategyChoice = z.infer<typeof StrategyChoice>;

/** The root rollout or a continuation, as a strategy sees it. */
export const ExploreNode = z.object({
  rolloutId: z.string(),
  parentRolloutId: z.string().nullable(),
  /** The step of its parent before which it was forked; null for the root. */
  step: z.number().nullable(),
  depth: z.number(),
  state: z.enum(['running', 'scored', 'unscored', 'cancelled']),
  reward: z.number().nullable(),
  /** Steps that can be forked: those that have a checkpoint. Known once it has ended. */
  checkpoints: z.array(z.number()),
});
export type ExploreNode = z.infer<typeof ExploreNode>;

export const ExplorationInput = z.object({
  exploreId: z.string(),
  /** Input of the root rollout; what continuations do differently is merged in already. */
  root: RolloutInput,
  /** The root as it is now. */
  rootNode: ExploreNode,
  strategy: StrategyChoice,
  limits: ExploreLimits,
  /** Added to the seed of the k-th continuation. */
  seed: z.number().int(),
});
export type ExplorationInput = z.infer<typeof ExplorationInput>;

export const ExplorationResult = z.object({
  exploreId: z.string(),
  /** Mean over the scored continuations; null when none was. */
  value: z.number().nullable(),
  best: z.object({ rolloutId: z.string(), reward: z.number() }).nullable(),
  /** For each step of the root that was forked, the mean reward of what came of it. */
  values: z.array(
    z.object({
      step: z.number(),
      value: z.number().nullable(),
      visits: z.number(),
      scored: z.number(),
    }),
  ),
  scored: z.number(),
  ended: z.enum(['done', 'stop_reward', 'limit', 'cancelled']),
  modelCalls: z.number(),
  rollouts: z.array(
    z.object({
      rolloutId: z.string(),
      parentRolloutId: z.string().nullable(),
      step: z.number().nullable(),
      outcome: Outcome,
      reward: z.number().nullable(),
    }),
  ),
});
export type ExplorationResult = z.infer<typeof ExplorationResult>;

/** What the `exploration` query answers: an exploration so far. */
export interface ExplorationProgress {
  exploreId: string;
  /** The root first, then the continuations as they were started; of a large tree, the last ones. */
  nodes: ExploreNode[];
  /** Continuations that are left out of `nodes`. */
  more: number;
  running: number;
  modelCalls: number;
  tokens: number;
  costUsd: number;
  /** Null while it runs. */
  ended: ExplorationResult['ended'] | null;
}
