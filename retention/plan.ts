import type { DenvClient } from '../denv/client';
import { isOwnerIn } from '../rollouts/owner';
import { gatherFacts } from './facts';
import type { FactParts } from './facts';
import { planRetention } from './rules';
import type { RetentionPlan, RetentionRules } from './rules';
import type { Measure } from './sizes';

export interface PlanParts extends FactParts {
  denv: Pick<DenvClient, 'listVersions'>;
  /** As `ownerLabel` makes it. */
  owner: string;
  rules: RetentionRules;
  measure: Measure;
}

/**
 * Decides what is to be done about all versions of an owner. Changes nothing.
 * @returns null where the owner's namespace is not the one that Temporal answers for
 */
export async function planCollection(parts: PlanParts, now: Date): Promise<RetentionPlan | null> {
  const { denv, measure, owner, rules, work } = parts;
  const { versions } = await denv.listVersions({ owner });
  const own = versions.filter(({ labels }) => labels['owner'] === owner && labels['rolloutId']);
  if (!isOwnerIn(await work.namespaceId(), owner)) return null;
  return planRetention(await gatherFacts(parts, await measure(own)), rules, now.getTime());
}

/** How often each word is there. */
export function countWords(words: string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1;
  return counts;
}
