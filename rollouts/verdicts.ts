import type { RolloutSummary } from '../contracts/batch';
import type { RolloutResult } from '../contracts/rollout';
import type { RolloutRow } from '../stores/ledger';

/** A rollout's result by the verdict that counts now. What the ledger recorded at its end stays there as it was. */
export function currentResult({ result, regraded }: RolloutRow): RolloutResult | null {
  if (!result || !regraded) return result;
  const { reward, rewards } = regraded;
  // What kept it from a score no longer does; what its agent did wrong beside a score stays.
  const failure = result.outcome === 'unscored' ? null : result.failure;
  return { ...result, outcome: 'scored', reward, rewards, failure };
}

/** That a later verdict counts, and the reward before any. */
export function regradedOf({ result, regraded }: RolloutRow): RolloutSummary['regraded'] {
  if (!result || !regraded) return undefined;
  return { regradeId: regraded.regradeId, first: result.reward };
}

/** The version that the last verdict of a rollout's own judged, also one that gave no reward; null when there is none. */
export function judgedVersion(result: Pick<RolloutResult, 'verdicts'> | null): string | null {
  return result?.verdicts.findLast(({ of }) => of === 'submission')?.version || null;
}
