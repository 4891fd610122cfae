import { countWords, planCollection } from '../../retention/plan';
import { createKeepPolicies } from '../../retention/keep-policies';
import { openWork } from '../../retention/open-work';
import type { RetentionRules } from '../../retention/rules';
import { measureInTurn } from '../../retention/sizes';
import type { Rollouts } from '../api/connect';
import { sizeWords } from '../reports/sizes';

/** What versions take, what keeps them, and what the worker's collector would remove now. Changes nothing. */
export interface VersionsReport {
  versions: number;
  /** Each for itself: what several share is in none of them. */
  bytes: number;
  keptBy: Record<string, number>;
  wouldRemove: { versions: number; bytes: number; why: Record<string, number> };
  budgetBytes: number | null;
  overBytes: number;
  days: number;
}

/** @returns null where the versions are of another namespace than Temporal answers for */
export async function examineVersions(
  { temporal, denv, ledger, blobs, owner }: Rollouts,
  rules: RetentionRules,
  now: Date,
): Promise<VersionsReport | null> {
  const keeps = createKeepPolicies({ blobs, ledger });
  const measure = measureInTurn(denv);
  const work = openWork(temporal);
  const plan = await planCollection({ denv, ledger, work, keeps, owner, rules, measure }, now);
  if (plan === null) return null;
  const { remove, holds, bytes, overBytes } = plan;
  return {
    versions: holds.length,
    bytes,
    keptBy: countWords(holds.map(({ hold }) => hold.kind).filter((kind) => kind !== 'none')),
    wouldRemove: {
      versions: remove.length,
      bytes: remove.reduce((sum, { version }) => sum + (version.bytes ?? 0), 0),
      why: countWords(remove.map(({ why }) => why)),
    },
    budgetBytes: rules.budgetBytes,
    overBytes,
    days: rules.days,
  };
}

/** The same as a person reads it. */
export function versionsWords(report: VersionsReport): string {
  const { versions, bytes, wouldRemove, budgetBytes, overBytes, days } = report;
  const budget = budgetBytes === null ? '' : ` of ${sizeWords(budgetBytes)}`;
  const goes =
    wouldRemove.versions === 0
      ? 'none would be removed now'
      : `${wouldRemove.versions} would be removed now (${sizeWords(wouldRemove.bytes)})`;
  const over = overBytes === 0 ? '' : `; ${sizeWords(overBytes)} over, and all of it is kept`;
  return `${versions}, ${sizeWords(bytes)}${budget}, for at most ${days} days; ${goes}${over}`;
}
