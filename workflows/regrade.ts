import { continueAsNew, isCancellation, log, workflowInfo } from '@temporalio/workflow';
import type { RegradeFacts, RegradeRecord } from '../activities/regrade';
import type { RegradeInput, RegradeResult } from '../contracts/regrade';
import type { VerdictResult } from '../contracts/rollout';
import { activitiesFor } from './activity-options';
import { toTrouble } from './failures';
import { combine, namedRewards } from './grading/combine';

/** What a regrade carries into its next run. */
export interface RegradeState {
  /** How many rollouts were taken so far. */
  next: number;
  judged: number;
  missing: number;
}

type Item = RegradeInput['rollouts'][number];
type Graded = Pick<RegradeRecord, 'verdict' | 'reward' | 'rewards' | 'why' | 'verifierDigest'> & {
  missing: boolean;
};

/** How often a verifier without a verdict is run in all, on the same version. */
const tries = 3;

/**
 * Verifies again the kept final snapshots of rollouts that have ended: no agent runs and no model is asked. At most `concurrency`
 * verifiers run at once, each verdict under keys of its own, so that a worker that dies costs none of them. A rollout that cannot
 * be verified is recorded with the reason, and holds up no other.
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
    await gradeAndRecord(input.regradeId, item, state);
  }
}

async function gradeAndRecord(regradeId: string, item: Item, state: RegradeState): Promise<void> {
  const { missing, ...graded } = await gradeItem(regradeId, item);
  if (missing) state.missing += 1;
  const { rolloutId, version } = item;
  const at = new Date().toISOString();
  try {
    const record = { regradeId, rolloutId, version, ...graded, at };
    const { judged } = await activitiesFor('record', 'record').recordRegrade(record);
    if (judged) state.judged += 1;
  } catch (error) {
    if (isCancellation(error)) throw error;
    // A verdict that nobody can read does not count.
    log.error('the ledger did not record a verdict', { rolloutId, error });
  }
}

async function gradeItem(regradeId: string, item: Item): Promise<Graded> {
  let facts: RegradeFacts | null = null;
  try {
    facts = await activitiesFor('record', 'read the verifier').readRegradeFacts(item);
    const verdict = await verifyAgain(regradeId, item, facts.verifyTimeoutS);
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

/** Runs the verifier as after a rollout: one that gives no verdict is run again, under a new key, on the very same version. */
async function verifyAgain(
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

/** Computes the rollout's reward from a new verdict. Other graders that count keep what they said when the rollout ended. */
export function rewardBy(
  { grading, grades }: Pick<RegradeFacts, 'grading' | 'grades'>,
  verdict: VerdictResult,
): Pick<RegradeRecord, 'verdict' | 'reward' | 'rewards' | 'why'> {
  if (verdict.verdict === 'none')
    return { verdict, reward: null, rewards: {}, why: verdict.summary };
  const { reward, rewards } = verdict;
  if (!grading) return { verdict, reward, rewards, why: null };
  const all = grading.graders.map((grader) => {
    const { name, kind, weight, counts } = grader;
    if (kind === 'verify') return { name, kind, weight, counts, reward, rewards };
    const said = grades.find((grade) => grade.name === name);
    const kept = { reward: said?.reward ?? null, rewards: said?.rewards ?? {} };
    return { name, kind, weight, counts, ...kept };
  });
  const counting = all.filter(({ counts }) => counts);
  const combined = combine(grading.combine, counting);
  if (combined === null) {
    const silent = counting.filter((grade) => grade.reward === null).map(({ name }) => name);
    const why = `no reward: ${silent.join(', ')} gave none when the rollout ended`;
    return { verdict, reward: null, rewards: {}, why };
  }
  return { verdict, reward: combined, rewards: namedRewards(all), why: null };
}
