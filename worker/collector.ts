import type { DenvClient } from '../denv/client';
import { DenvError } from '../denv/errors';
import { countWords, planCollection } from '../retention/plan';
import type { PlanParts } from '../retention/plan';
import type { RetentionPlan } from '../retention/rules';
import { startRounds } from './rounds';

export interface CollectorParts extends PlanParts {
  denv: Pick<DenvClient, 'listVersions' | 'deleteVersion' | 'retainVersion'>;
  say: (message: string, fields: Record<string, unknown>) => void;
}

/** Removed in one round: what was asked before the first of them should still hold at the last. */
const mostAtOnce = 200;

/**
 * Removes the versions of this owner that nothing keeps, and has the server keep the others for as long as they should be. A
 * failed or partial answer changes nothing.
 * @returns ids of the removed
 */
export async function collectOnce(parts: CollectorParts, now: Date): Promise<string[]> {
  const plan = await planCollection(parts, now);
  if (plan === null) return [];
  const { denv, say } = parts;
  for (const { version, retentionS } of plan.retain) {
    await denv.retainVersion(version.id, { retentionS });
  }
  const removed: string[] = [];
  const inUse: string[] = [];
  for (const { version } of plan.remove.slice(0, mostAtOnce)) {
    try {
      await denv.deleteVersion(version.id);
      removed.push(version.id);
    } catch (error) {
      if (!(error instanceof DenvError) || error.code !== 'version_in_use') throw error;
      inUse.push(version.id);
    }
  }
  sayWhat(say, plan, { removed, inUse });
  return removed;
}

function sayWhat(
  say: CollectorParts['say'],
  plan: RetentionPlan,
  { removed, inUse }: { removed: string[]; inUse: string[] },
): void {
  if (removed.length > 0 || inUse.length > 0) {
    const gone = plan.remove.filter(({ version }) => removed.includes(version.id));
    say('removed versions that nothing keeps', {
      removed: removed.length,
      of: plan.holds.length,
      bytes: gone.reduce((sum, { version }) => sum + (version.bytes ?? 0), 0),
      why: countWords(gone.map(({ why }) => why)),
      inUse,
      left: plan.remove.length - removed.length,
    });
  }
  if (plan.overBytes > 0) {
    say('versions take more than the disk budget, and something keeps each of them', {
      overBytes: plan.overBytes,
      keptBy: countWords(plan.holds.map(({ hold }) => hold.kind)),
    });
  }
}

/** Collects now and at every interval, one round at a time. A round that fails is said and tried again at the next. */
export function startCollector(
  parts: CollectorParts,
  everyMs: number,
): { stop: () => Promise<void> } {
  return startRounds(
    () => collectOnce(parts, new Date()),
    everyMs,
    (error) =>
      parts.say('the collector could not go on, and removes nothing more', {
        error: String(error),
      }),
  );
}
