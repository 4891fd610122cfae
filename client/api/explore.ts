import { ExplorationInput } from '../../contracts/rollout';
import type {
  ExplorationResult,
  ExploreLimits,
  ExploreNode,
  RolloutInput,
  StrategyChoice,
} from '../../contracts/rollout';
import type { ContinuationWay } from '../../contracts/task';
import { missingPrice } from '../../tasks/prices';
import type { ChosenWay } from '../../rollouts/ways';
import { explorationQuery } from '../../workflows/messages';
import type { ExplorationProgress } from '../../workflows/messages';
import { withChanges } from './changes';
import type { ModelChanges } from './changes';
import { NoAnswerError, queryWorkflow } from '../../temporal/states';
import type { Rollouts } from './connect';
import { UsageError } from '../errors';
import { missingCheckpoint, whyMissing } from './fork-points';
import { handle, startOnce, takeCheckpoint } from './rollouts';
import { deepest, depthOf, readStanding, wayFrom } from './rollout-status';
import type { Standing } from './rollout-status';

/** Where the blob store has what an exploration was started with, by the root's id and the exploration's number. */
export const explorationName = (rolloutId: string, n: number): string =>
  `explorations/${rolloutId}/${n}`;

/** Its root, by the id of an exploration. */
export const rootOf = (exploreId: string): string => exploreId.split('/').slice(1, -1).join('/');

export const isExploration = (id: string): boolean => id.startsWith('explore/');

export interface ExploreRequest {
  rolloutId: string;
  strategy: StrategyChoice;
  limits: ExploreLimits;
  changes: ModelChanges;
  way?: ContinuationWay;
  /** Left out: other seeds than those of the explorations before. */
  seed?: number;
  priceFile: string;
}

export interface StartedExploration {
  exploreId: string;
  chosen: ChosenWay;
}

/**
 * Starts a workflow that goes on from steps of a rollout, again and again as its strategy says, within its limits: each
 * continuation in a sandbox of its own, with what was left of the budget and a seed of its own, each verified. Exploring the same
 * rollout again adds to what there is.
 * @throws UsageError when there is nothing to go on from, or a limit needs a price that is not known
 */
export async function startExploration(
  rollouts: Rollouts,
  request: ExploreRequest,
): Promise<StartedExploration> {
  const { rolloutId, limits } = request;
  const standing = await startingPoint(rollouts, request);
  const chosen = wayFrom(standing, request.way);
  const changed = await withChanges(standing.input, request.changes, request.priceFile);
  if (
    limits.maxCostUsd !== undefined &&
    changed.agent === 'model' &&
    changed.model.price === null
  ) {
    throw new UsageError(missingPrice(changed.model.name, request.priceFile).message);
  }
  const rootNode = nodeOf(standing, chosen);
  refuseNowhere(rootNode, request.strategy);
  if (chosen.way === 'snapshot') await refuseExpired(rollouts, standing, request.strategy);
  const root = await goingOn(rollouts, standing, changed, request.way);
  const levels = deepest - depthOf(standing.input);
  if (levels < 1) {
    throw new UsageError(
      `${rolloutId} is a fork ${deepest} deep already, and that is as deep as it goes`,
    );
  }
  const exploreId = await claim(rollouts, rolloutId, (n) => ({
    exploreId: `explore/${rolloutId}/${n}`,
    root,
    rootNode,
    strategy: request.strategy,
    limits: { ...limits, maxDepth: Math.min(limits.maxDepth, levels) },
    seed: request.seed ?? (n - 1) * seedsOfOne,
  }));
  return { exploreId, chosen };
}

/** Of a rollout that runs and has no checkpoint yet, one is taken, at its next moment between two steps. */
async function startingPoint(
  rollouts: Rollouts,
  { rolloutId, strategy }: ExploreRequest,
): Promise<Standing> {
  const standing = await readStanding(rollouts, rolloutId);
  const { state, checkpoints } = standing;
  if (state !== 'running' || checkpoints.length > 0 || strategy.at !== 'last') return standing;
  await takeCheckpoint(rollouts, rolloutId);
  return readStanding(rollouts, rolloutId);
}

/** No exploration has more continuations, so none has the seeds of another. */
const seedsOfOne = 10_000;

function nodeOf(standing: Standing, { way }: ChosenWay): ExploreNode {
  const { input, state, reward, steps, checkpoints } = standing;
  return {
    rolloutId: input.rolloutId,
    parentRolloutId: null,
    step: null,
    depth: 0,
    state,
    reward,
    checkpoints:
      way === 'replay'
        ? Array.from({ length: steps }, (_, i) => i + 1)
        : checkpoints.map(({ step }) => step),
  };
}

function refuseNowhere({ rolloutId, checkpoints }: ExploreNode, { at }: StrategyChoice): void {
  if (checkpoints.length === 0) {
    throw new UsageError(
      `${rolloutId} has no checkpoints to go on from; run it with --checkpoints step, or explore with --way replay`,
    );
  }
  if (typeof at !== 'number' || checkpoints.includes(at)) return;
  throw new UsageError(
    `--at ${at}: ${rolloutId} has no checkpoint before that step; it has them before ${checkpoints.join(', ')}`,
  );
}

/** Where it begins at one step; a strategy that looks at many does without those that are gone. */
async function refuseExpired(
  rollouts: Rollouts,
  standing: Standing,
  { at }: StrategyChoice,
): Promise<void> {
  const { checkpoints } = standing;
  const start = at === 'last' ? checkpoints.at(-1) : checkpoints.find(({ step }) => step === at);
  const missing = start && (await whyMissing(rollouts, start));
  if (missing) throw missingCheckpoint(standing, start.step, missing);
}

/** The way that was asked for is said in the task, which is what a continuation goes by. */
async function goingOn(
  { blobs }: Rollouts,
  { packed }: Standing,
  root: RolloutInput,
  way: ContinuationWay | undefined,
): Promise<RolloutInput> {
  if (way === undefined || packed.task.continuation === way) return root;
  const task = { ...packed.task, continuation: way };
  const { ref } = await blobs.put(Buffer.from(JSON.stringify({ ...packed, task })));
  return { ...root, taskRef: ref };
}

/** Numbers are claimed in the blob store, so two explorations at once never have the same one. */
async function claim(
  rollouts: Rollouts,
  rolloutId: string,
  inputFor: (n: number) => ExplorationInput,
): Promise<string> {
  for (let n = 1; ; n++) {
    const input = ExplorationInput.parse(inputFor(n));
    const data = Buffer.from(JSON.stringify(input));
    const { won } = await rollouts.blobs.putIfAbsent(explorationName(rolloutId, n), data);
    if (!won) continue;
    await startOnce(rollouts, 'explore', input.exploreId, input);
    return input.exploreId;
  }
}

const answerMs = 5000;

/** An exploration so far, also once it has ended; null when nobody answers. */
export async function explorationProgress(
  rollouts: Rollouts,
  exploreId: string,
): Promise<ExplorationProgress | null> {
  try {
    return await queryWorkflow(rollouts.temporal, exploreId, explorationQuery, answerMs);
  } catch (error) {
    if (error instanceof NoAnswerError) return null;
    throw error;
  }
}

/** Waits for an exploration to end. @throws WorkflowFailedError when it was cancelled before it began, or failed */
export async function awaitExploration(
  rollouts: Rollouts,
  exploreId: string,
): Promise<ExplorationResult> {
  return (await handle(rollouts, exploreId).result()) as ExplorationResult; // what the explore workflow returns
}
