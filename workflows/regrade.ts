import { continueAsNew, isCancellation, log, workflowInfo } from '@temporalio/workflow';
import type { RegradeFacts, RegradeRecord } from '../activities/regrade';
import type { RegradeInput, RegradeResult } from '../contracts/regrade';
import type { VerdictResult } from '../contracts/rollout';
import { activitiesFor } from './activity-options';
import { toTrouble } from './failures';
import { rewardBy } from './regrade-reward';

/** What a regrade carries into its next run. */
export interface RegradeState {
  /** How many rollouts were taken so far. */
  next: number;
  judged: number;
  missing: number;
}

type Item = RegradeInput['rollouts'][number];
type Judgement = Pick<
  RegradeRecord,
  'verdict' | 'reward' | 'rewards' | 'why' | 'verifierDigest'
> & { missing: boolean };

/** How often a verifier without a verdict is run in all, on the same version. */
const tries = 3;

/**
 * Verdicts again, on the kept final snapshots of rollouts that have ended: no agent runs and no model is asked. At most
 * `concurrency` verifiers at once, each judgement under keys of its own, so that a worker that dies costs none of them. What
 * cannot be judged is recorded with its reason, and holds up no other.
 */
export async function regrade(input: RegradeInput, carried?: RegradeState): Promise<RegradeResult> {
  const state = carried ?? { next: 0, judged: 0, missing: 0 };
  const lanes = Array.from({ length: Math.min(input.concurrency, input.rollouts.length) }, () =>
    lane(input, state),
  );
  // Each is waited for: one that is cancelled has a verifier to stop.
  for (const end of await Promise.allSettled(lanes)) {
    if (end.status === 'rejected') throw end.reason;
  }
  if (state.next < input.rollouts.length) return continueAsNew<typeof regrade>(input, state);
  return { regradeId: input.regradeId, judged: state.judged, missing: state.missing };
}

async function lane(input: RegradeInput, state: RegradeState): Promise<void> {
  while (!workflowInfo().continueAsNewSuggested) {
    const item = input.rollouts[state.next];
    if (!item) return;
    state.next += 1;
    await judgeAndRecord(input.regradeId, item, state);
  }
}

async function judgeAndRecord(regradeId: string, item: Item, state: RegradeState): Promise<void> {
  const { missing, ...judgement } = await judge(regradeId, item);
  if (missing) state.missing += 1;
  const { rolloutId, version } = item;
  const at = new Date().toISOString();
  try {
    const record = { regradeId, rolloutId, version, ...judgement, at };
    const { judged } = await activitiesFor('record', 'record').recordRegrade(record);
    if (judged) state.judged += 1;
  } catch (error) {
    if (isCancellation(error)) throw error;
    // A verdict that nobody can read was not given.
    log.error('the ledger did not take a verdict', { rolloutId, error });
  }
}

async function judge(regradeId: string, item: Item): Promise<Judgement> {
  let facts: RegradeFacts | null = null;
  try {
    facts = await activitiesFor('record', 'read what judges').readRegradeFacts(item);
    const verdict = await verdictOn(regradeId, item, facts.verifyTimeoutS);
    return { ...rewardBy(facts, verdict), verifierDigest: facts.verifierDigest, missing: false };
  } catch (error) {
    if (isCancellation(error)) throw error;
    const { failure } = toTrouble(error, 'verify');
    const missing = failure.type === 'VersionNotFound';
    const why = missing
      ? `its snapshot ${item.version} has expired or was removed`
      : `${failure.type}: ${failure.message}`;
    const verifierDigest = facts?.verifierDigest ?? '';
    return { verdict: null, reward: null, rewards: {}, why, verifierDigest, missing };
  }
}

/** As after a rollout: a verifier that gives no verdict is run again, under a new key, on the very same version. */
async function verdictOn(
  regradeId: string,
  { rolloutId, version, taskRef }: Item,
  timeoutS: number,
): Promise<VerdictResult> {
  for (let n = 0; ; n += 1) {
    const verdict = await activitiesFor('run', `verify ${rolloutId} ${n}`, timeoutS).verify({
      key: `${regradeId}/${rolloutId}/verify/${n}`,
      taskRef,
      rolloutId,
      target: { version },
      of: 'submission',
    });
    if (verdict.verdict !== 'none' || n + 1 === tries) return verdict;
  }
}
