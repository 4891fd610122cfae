import { setTimeout as sleep } from 'node:timers/promises';
import { WorkflowFailedError, WorkflowNotFoundError } from '@temporalio/client';
import { CancelledFailure } from '@temporalio/common';
import type {
  ExplorationResult,
  ExploreNode,
  ExplorationProgress,
} from '../../contracts/exploration';
import type { Rollouts } from '../api/connect';
import type { Context } from '../context';
import { awaitExploration, readExplorationProgress } from '../api/explore';
import { rootOfExploration } from '../../workflows/continuation-ids';
import { explorationLines } from '../reports/exploration';
import { UserError } from '../errors';
import { formatReward } from '../reports/table';
import { meanOf } from '../api/tree';
import { shortId } from '../reports/tree';

const pollMs = 1000;

/**
 * Waits for an exploration with a line for each continuation that ends.
 * @returns what it came to, also when it was cancelled
 */
export async function followExploration(
  context: Context,
  rollouts: Rollouts,
  exploreId: string,
): Promise<ExplorationResult> {
  const over = new AbortController();
  const told = tellNews(context, rollouts, exploreId, over.signal);
  try {
    return await awaitResult(rollouts, exploreId);
  } finally {
    over.abort();
    await told;
  }
}

/** Prints the answer of `explore` and `watch`, and sets their exit code. */
export function printExploration(
  context: Context,
  result: ExplorationResult,
  { json }: { json?: boolean },
): void {
  const rootRolloutId = rootOfExploration(result.exploreId);
  if (json) context.print(JSON.stringify({ rootRolloutId, ...result }));
  else for (const line of explorationLines(rootRolloutId, result)) context.print(line);
  const whole = result.ended === 'stop_reward' || result.scored === result.rollouts.length;
  context.exitWith(whole && result.ended !== 'cancelled' ? 0 : 3);
}

async function awaitResult(rollouts: Rollouts, exploreId: string): Promise<ExplorationResult> {
  try {
    return await awaitExploration(rollouts, exploreId);
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      throw new UserError(
        `there is no exploration ${exploreId}; rollouts tree ROLLOUT shows what was explored of a rollout`,
      );
    }
    const cancelled =
      error instanceof WorkflowFailedError && error.cause instanceof CancelledFailure;
    const progress = cancelled ? await readExplorationProgress(rollouts, exploreId) : null;
    if (!progress) throw error;
    return cancelledResult(progress);
  }
}

/** Prints a line for what is new, until all is over. A worker that does not answer is asked again. */
async function tellNews(
  context: Context,
  rollouts: Rollouts,
  exploreId: string,
  over: AbortSignal,
): Promise<void> {
  const told = new Set<string>();
  for (;;) {
    const last = over.aborted;
    const progress = await readExplorationProgress(rollouts, exploreId);
    for (const line of progress ? newLines(progress, told) : []) context.note(line);
    if (last) return;
    await sleep(pollMs, undefined, { signal: over }).catch(() => undefined);
  }
}

function newLines({ nodes, more, running }: ExplorationProgress, told: Set<string>): string[] {
  const [root, ...continuations] = nodes;
  const ended = continuations.filter(({ state }) => state !== 'running');
  const rewards = ended.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const best =
    rewards.length === 0 ? 'no reward yet' : `best ${formatReward(Math.max(...rewards))}`;
  const counts = `${ended.length + more} ended, ${running} running, ${best}`;
  return ended.flatMap((node) => {
    if (told.has(node.rolloutId)) return [];
    told.add(node.rolloutId);
    return [`[${counts}] ${endWords(root?.rolloutId ?? '', node)}`];
  });
}

function endWords(rootId: string, node: ExploreNode): string {
  const { rolloutId, parentRolloutId, step, state, reward } = node;
  const parent =
    parentRolloutId === null || parentRolloutId === rootId
      ? ''
      : ` of ${shortId(rootId, parentRolloutId)}`;
  const outcome = reward === null ? state : `reward ${formatReward(reward)}`;
  return `${shortId(rootId, rolloutId)}, from before step ${step}${parent}: ${outcome}`;
}

/** Makes a result for an exploration that was cancelled, and has none of its own. */
function cancelledResult(progress: ExplorationProgress): ExplorationResult {
  const { exploreId, modelCalls, nodes } = progress;
  const continuations = nodes.slice(1);
  const scored = continuations.filter(({ state }) => state === 'scored');
  const ranked = scored.toSorted((a, b) => (b.reward ?? 0) - (a.reward ?? 0));
  const [best] = ranked;
  return {
    exploreId,
    value: meanOf(scored.map(({ reward }) => reward ?? 0)),
    best: best ? { rolloutId: best.rolloutId, reward: best.reward ?? 0 } : null,
    // The values of a search that was cut short would mislead; `rollouts tree` has them.
    values: [],
    scored: scored.length,
    ended: 'cancelled',
    modelCalls,
    rollouts: continuations.map(({ rolloutId, parentRolloutId, step, state, reward }) => ({
      rolloutId,
      parentRolloutId,
      step,
      outcome: state === 'scored' ? 'scored' : 'unscored',
      reward,
    })),
  };
}
