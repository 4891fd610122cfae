import { isCancellation, log } from '@temporalio/workflow';
import type { RolloutInput, VerdictResult } from '../contracts/rollout';
import { activitiesFor } from './activity-options';
import { troubleOf } from './failures';
import { verifyKey } from './keys';
import { worldOf } from './state';
import type { RolloutEnding, RolloutState } from './state';

/** How often a verifier without a verdict is run again on the same version. */
const moreTries = 2;

/**
 * Has what the agent left judged, and decides what that counts as. A verifier that gives no verdict runs twice more on the very
 * same version, then on the untouched start version: a verdict there says that the submission is why there was none.
 */
export async function judge(input: RolloutInput, state: RolloutState): Promise<RolloutEnding> {
  state.stage = 'verify';
  const { sandboxId, startVersion, task } = worldOf(state);
  let verdict = await verify(input, state, 0, { sandboxId }, 'submission');
  const { version } = verdict;
  for (let again = 1; verdict.verdict === 'none' && again <= moreTries; again += 1) {
    verdict = await verify(input, state, again, { version }, 'submission');
  }
  if (verdict.verdict !== 'none') return scored(state, verdict);

  const submissionCaused = await startHasVerdict(input, state, startVersion);
  const failure = {
    class: 'verifier' as const,
    type: 'VerifierFailed',
    stage: 'verify' as const,
    message: verdict.summary,
  };
  return submissionCaused && task.noVerdict === 'zero'
    ? { outcome: 'scored', reward: 0, rewards: {}, failure, submissionCaused }
    : { outcome: 'unscored', reward: null, rewards: {}, failure, submissionCaused };
}

/** A question about whose fault it is: what goes wrong here changes nothing else. */
async function startHasVerdict(
  input: RolloutInput,
  state: RolloutState,
  version: string,
): Promise<boolean> {
  try {
    const start = await verify(input, state, 'start', { version }, 'start');
    return start.verdict !== 'none';
  } catch (error) {
    if (isCancellation(error)) throw error;
    log.warn('the start version could not be verified', {
      failure: troubleOf(error, 'verify').failure,
    });
    return false;
  }
}

async function verify(
  input: RolloutInput,
  state: RolloutState,
  what: number | 'start',
  target: { sandboxId: string } | { version: string },
  of: VerdictResult['of'],
): Promise<VerdictResult> {
  const { verifyTimeoutS } = worldOf(state).task;
  const verdict = await activitiesFor('run', `verify ${what}`, verifyTimeoutS).verify({
    key: verifyKey(state, what),
    taskRef: input.taskRef,
    rolloutId: input.rolloutId,
    target,
    of,
  });
  state.verdicts.push(verdict);
  return verdict;
}

const scored = (state: RolloutState, { reward, rewards }: VerdictResult): RolloutEnding => ({
  outcome: 'scored',
  reward,
  rewards,
  failure: state.agentFailure,
  submissionCaused: false,
});
