import {
  CancellationScope,
  CancelledFailure,
  ParentClosePolicy,
  isCancellation,
} from '@temporalio/workflow';
import type { RolloutEnd } from '../activities/await-rollouts';
import type { ExploreInput, ExploreResult, RolloutInput } from '../contracts/rollout';
import { endOfChild, startRollout, watch } from './children';

/**
 * Continuations from one checkpoint, each a rollout of its own with sandbox, budget and seed. The value is the mean reward of
 * those that were scored. Cancelling it cancels them, and waits until each has cleaned up.
 */
export async function explore(input: ExploreInput): Promise<ExploreResult> {
  const scope = CancellationScope.current();
  const ends = await Promise.all(input.rollouts.map(continuation));
  if (scope.consideredCancelled) throw new CancelledFailure('the exploration was cancelled');
  const rewards = ends.flatMap(({ reward }) => (reward === null ? [] : [reward]));
  const sum = rewards.reduce((total, reward) => total + reward, 0);
  return {
    exploreId: input.exploreId,
    value: rewards.length === 0 ? null : sum / rewards.length,
    scored: ends.filter(({ outcome }) => outcome === 'scored').length,
    rollouts: ends,
  };
}

async function continuation(input: RolloutInput): Promise<RolloutEnd> {
  let end: RolloutEnd = { rolloutId: input.rolloutId, outcome: 'unscored', reward: null };
  try {
    const child = await startRollout(input, ParentClosePolicy.REQUEST_CANCEL);
    if (child) return await endOfChild(child, { input });
    await watch(
      [input.rolloutId],
      () => ({ input }),
      (found) => (end = found),
    );
  } catch (error) {
    // Cancelled before it began; its siblings are waited for all the same.
    if (!isCancellation(error)) throw error;
  }
  return end;
}
