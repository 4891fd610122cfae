import { WorkflowFailedError } from '@temporalio/client';
import type { RegradeInput, RegradeResult } from '../../contracts/regrade';
import { DenvError } from '../../denv/errors';
import type { Rollouts } from './connect';
import type { Chosen, RegradePlan } from './regrade-plan';
import { handle, startOnce } from './rollouts';

/** What became of one chosen rollout. */
export interface Regraded extends Chosen {
  version: string | null;
  /** The reward that counts now: as before where nothing was judged. */
  reward: number | null;
  judged: boolean;
  /** The reward is another one than before. */
  turned: boolean;
  /** Why there is no new verdict. */
  why: string | null;
}

export interface RegradeReport {
  regradeId: string | null;
  judged: number;
  /** Without a snapshot to judge. */
  missing: number;
  turned: number;
  same: number;
  rollouts: Regraded[];
}

/**
 * Starts to judge again what a plan names. Each start is a regrade of its own, with its own number.
 * @returns its id, which is that of its workflow
 */
export async function startRegrade(
  rollouts: Rollouts,
  { batchId, judged }: RegradePlan,
  concurrency: number,
): Promise<string> {
  const items = judged.map(({ rolloutId, version, taskRef }) => ({ rolloutId, version, taskRef }));
  for (let n = 1; ; n += 1) {
    const regradeId = `regrade/${batchId}/${n}`;
    const input: RegradeInput = { regradeId, rollouts: items, concurrency };
    const data = Buffer.from(JSON.stringify(input));
    // Claimed in the blob store: two at once never share a number.
    const { won } = await rollouts.blobs.putIfAbsent(`regrades/${regradeId}`, data);
    if (!won) continue;
    await startOnce(rollouts, 'regrade', regradeId, input);
    return regradeId;
  }
}

/** Waits for a regrade to end, and tells what it turned. */
export async function awaitRegrade(
  rollouts: Rollouts,
  regradeId: string,
  plan: RegradePlan,
): Promise<RegradeReport> {
  const missing = await missingOf(rollouts, regradeId);
  const rows = await rollouts.ledger.regrades({ regradeId });
  const given = new Map(rows.map((row) => [row.rolloutId, row]));
  const judged = plan.judged.map(({ rolloutId, before, version }): Regraded => {
    const row = given.get(rolloutId);
    const reward = row?.verdict?.verdict === 'none' ? null : (row?.reward ?? null);
    if (reward === null) {
      const why = row?.why ?? 'it was not judged';
      return { rolloutId, before, version, reward: before, judged: false, turned: false, why };
    }
    const turned = reward !== before;
    return { rolloutId, before, version, reward, judged: true, turned, why: null };
  });
  return reportOf(regradeId, plan, judged, missing);
}

/** One that was cancelled does not tell: what it judged before is recorded all the same. */
async function missingOf(rollouts: Rollouts, regradeId: string): Promise<number> {
  try {
    const result = (await handle(rollouts, regradeId).result()) as RegradeResult; // what the regrade workflow returns
    return result.missing;
  } catch (error) {
    if (error instanceof WorkflowFailedError) return 0;
    throw error;
  }
}

/** With nothing in it that could be judged. */
export const emptyReport = (plan: RegradePlan): RegradeReport => reportOf(null, plan, [], 0);

/** What would be judged, with every snapshot looked for; nothing is started. */
export async function dryRun(rollouts: Rollouts, plan: RegradePlan): Promise<RegradeReport> {
  let missing = 0;
  const looked: Regraded[] = [];
  for (const { rolloutId, before, version } of plan.judged) {
    const there = await isThere(rollouts, version);
    if (!there) missing += 1;
    const why = there ? null : `its snapshot ${version} has expired or was removed`;
    looked.push({ rolloutId, before, version, reward: before, judged: false, turned: false, why });
  }
  return reportOf(null, plan, looked, missing);
}

export async function isThere({ denv }: Pick<Rollouts, 'denv'>, version: string): Promise<boolean> {
  try {
    await denv.getVersion(version);
    return true;
  } catch (error) {
    if (error instanceof DenvError && error.code === 'version_not_found') return false;
    throw error;
  }
}

function reportOf(
  regradeId: string | null,
  plan: RegradePlan,
  looked: Regraded[],
  missing: number,
): RegradeReport {
  const left = plan.left.map(({ rolloutId, before, why }): Regraded => {
    const nothing = { version: null, reward: before, judged: false, turned: false };
    return { rolloutId, before, ...nothing, why };
  });
  const judged = looked.filter((one) => one.judged);
  const turned = judged.filter((one) => one.turned).length;
  return {
    regradeId,
    judged: judged.length,
    missing: missing + plan.left.filter((one) => one.missing).length,
    turned,
    same: judged.length - turned,
    rollouts: [...looked, ...left],
  };
}
