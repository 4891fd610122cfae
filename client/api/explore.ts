import { ExplorationInput } from '../../contracts/exploration';
import type {
  ExplorationResult,
  ExploreLimits,
  ExploreNode,
  StrategyChoice,
  ExplorationProgress,
} from '../../contracts/exploration';
import type { RolloutInput } from '../../contracts/rollout';
import type { ContinuationWay } from '../../contracts/task';
import { depthOf, maxDepth } from '../../rollouts/continuation/start';
import { readEntries } from '../../rollouts/trajectory/chain';
import { stepsIn } from '../../rollouts/trajectory/checkpoints';
import { missingPrice } from '../../tasks/prices';
import type { ChosenWay } from '../../rollouts/ways';
import { explorationId } from '../../workflows/continuation-ids';
import { explorationQuery } from '../../workflows/messages';
import { withChanges } from './changes';
import type { ModelChanges } from './changes';
import { NoAnswerError, queryWorkflow } from '../../temporal/states';
import type { Rollouts } from './connect';
import { UsageError } from '../errors';
import { refuseTooDeep } from './fork';
import { findWhyMissing, missingCheckpoint } from './fork-points';
import { handle, startOnce, takeCheckpoint } from './rollouts';
import { readStanding, wayFrom } from './rollout-status';
import type { Standing } from './rollout-status';

/** The name under which the blob store keeps the input of a rollout's n-th exploration. */
const explorationName = (rolloutId: string, n: number): string => `explorations/${rolloutId}/${n}`;

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
 * Starts a workflow that forks steps of a rollout as a strategy chooses them, within its limits. Each continuation has a sandbox of
 * its own, what was left of the budget and a seed of its own, and is verified. Exploring the same rollout again adds more of them.
 * @throws UsageError when there is nothing to fork, or a limit needs a price that is not known
 */
export async function startExploration(
  rollouts: Rollouts,
  request: ExploreRequest,
): Promise<StartedExploration> {
  const { rolloutId, limits } = request;
  const standing = await readForkable(rollouts, request);
  const chosen = wayFrom(standing, request.way);
  const changed = await withChanges(standing.input, request.changes, request.priceFile);
  if (
    limits.maxCostUsd !== undefined &&
    changed.agent === 'model' &&
    changed.model.price === null
  ) {
    throw new UsageError(missingPrice(changed.model.name, request.priceFile).message);
  }
  const rootNode = await readRootNode(rollouts, standing, chosen);
  refuseNowhere(rootNode, request.strategy);
  if (chosen.way === 'snapshot') await refuseExpired(rollouts, standing, request.strategy);
  const root = await withWay(rollouts, standing, changed, request.way);
  refuseTooDeep(standing.input);
  const levels = maxDepth - depthOf(standing.input.from);
  const exploreId = await claim(rollouts, rolloutId, (n) => ({
    exploreId: explorationId(rolloutId, n),
    root,
    rootNode,
    strategy: request.strategy,
    limits: { ...limits, maxDepth: Math.min(limits.maxDepth, levels) },
    seed: request.seed ?? (n - 1) * seedsOfOne,
  }));
  return { exploreId, chosen };
}

/** Reads how the root stands. A running one without a checkpoint takes one, at its next moment between two steps. */
async function readForkable(
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

async function readRootNode(
  { documents }: Rollouts,
  standing: Standing,
  { way }: ChosenWay,
): Promise<ExploreNode> {
  const { input, state, reward, trajectory, checkpoints } = standing;
  return {
    rolloutId: input.rolloutId,
    parentRolloutId: null,
    step: null,
    depth: 0,
    state,
    reward,
    checkpoints:
      way === 'replay'
        ? stepsIn(await readEntries(documents, trajectory))
        : checkpoints.map(({ step }) => step),
  };
}

function refuseNowhere({ rolloutId, checkpoints }: ExploreNode, { at }: StrategyChoice): void {
  if (checkpoints.length === 0) {
    throw new UsageError(
      `${rolloutId} has no checkpoints to fork; run it with --checkpoints step, or explore with --way replay`,
    );
  }
  if (typeof at !== 'number' || checkpoints.includes(at)) return;
  throw new UsageError(
    `--at ${at}: ${rolloutId} has no checkpoint before that step; it has them before ${checkpoints.join(', ')}`,
  );
}

/** Refuses a strategy that begins at one step whose checkpoint has expired. One that looks at many steps does without the expired ones. */
async function refuseExpired(
  rollouts: Rollouts,
  standing: Standing,
  { at }: StrategyChoice,
): Promise<void> {
  const { checkpoints } = standing;
  const start = at === 'last' ? checkpoints.at(-1) : checkpoints.find(({ step }) => step === at);
  const missing = start && (await findWhyMissing(rollouts, start));
  if (missing) throw missingCheckpoint(standing, start.step, missing);
}

/** Writes the way that was asked for into the task, because continuations read it from there. */
async function withWay(
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

/** Claims a number in the blob store, so that two explorations at once never have the same one. */
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

/** Reads an exploration so far, also once it has ended; null when nobody answers. */
export async function readExplorationProgress(
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
