import { isCancellation, log } from '@temporalio/workflow';
import type { GraderFacts } from '../../rollouts/task-facts';
import type { RolloutInput, VerdictResult } from '../../contracts/rollout';
import { newFailure } from '../../contracts/failures';
import { activitiesFor } from '../activity-options';
import { troubleOf } from '../failures';
import { resultOf } from './graders';
import type { Graded } from './graders';
import { verifyKey } from '../rollout/keys';
import { worldOf } from '../rollout/state';
import type { RolloutEnding, RolloutState } from '../rollout/state';

/** How often a verifier without a verdict is run again on the same version. */
const moreTries = 2;

type Target = { sandboxId: string } | { version: string };

const theVerifier: Omit<GraderFacts, 'timeoutS'> = {
  name: 'verify',
  kind: 'verify',
  weight: 1,
  index: null,
  criteria: 0,
  counts: true,
};

/** Has the task's verifier alone judge what the agent left, and decides what that counts as. */
export async function judge(input: RolloutInput, state: RolloutState): Promise<RolloutEnding> {
  state.stage = 'verify';
  const { sandboxId, task } = worldOf(state);
  const grader = { ...theVerifier, timeoutS: task.verifyTimeoutS };
  const graded = await runVerifier(input, state, { grader, target: { sandboxId } });
  const { result, failure, submissionCaused } = graded;
  const { reward, rewards } = result;
  state.grades = [result];
  return reward === null
    ? { outcome: 'unscored', reward, rewards: {}, failure, submissionCaused }
    : {
        outcome: 'scored',
        reward,
        rewards,
        failure: failure ?? state.agentFailure,
        submissionCaused,
      };
}

/**
 * The verdict on what the agent left. A verifier that gives none runs twice more on the very same version, then on the untouched
 * start version: a verdict there says that the submission is why there was none.
 */
export async function runVerifier(
  input: RolloutInput,
  state: RolloutState,
  { grader, target }: { grader: GraderFacts; target: Target },
): Promise<Graded> {
  const { startVersion, task } = worldOf(state);
  let verdict = await verify(input, state, 0, target, 'submission');
  const { version } = verdict;
  for (let again = 1; verdict.verdict === 'none' && again <= moreTries; again += 1) {
    verdict = await verify(input, state, again, { version }, 'submission');
  }
  const { reward, rewards, evidenceRef, summary } = verdict;
  const said = { reward, rewards, evidenceRef, summary };
  if (verdict.verdict !== 'none') {
    return { grader, result: resultOf(grader, said), failure: null, submissionCaused: false };
  }

  const submissionCaused = await startHasVerdict(input, state, startVersion);
  const zero = submissionCaused && task.noVerdict === 'zero';
  return {
    grader,
    result: resultOf(grader, { ...said, reward: zero ? 0 : null, rewards: {} }),
    failure: newFailure('VerifierFailed', 'verify', summary),
    submissionCaused,
  };
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
  target: Target,
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
