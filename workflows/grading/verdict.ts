import { isCancellation, log } from '@temporalio/workflow';
import type { GraderFacts } from '../../rollouts/task-facts';
import type { VerdictResult } from '../../contracts/rollout';
import { newFailure } from '../../contracts/failures';
import { activitiesFor } from '../activity-options';
import { toTrouble } from '../failures';
import { verifyKey } from '../rollout/keys';
import type { Rollout } from '../rollout/live-rollout';
import type { RolloutEnding } from '../rollout/state';
import { toGradeResult } from './graders';
import type { Graded } from './graders';

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

/** Grades what the agent left by the task's verifier alone, and decides how the rollout ends. */
export async function gradeSubmission(rollout: Rollout): Promise<RolloutEnding> {
  const { state } = rollout;
  state.stage = 'verify';
  const { sandboxId, task } = rollout.sandbox;
  const grader = { ...theVerifier, timeoutS: task.verifyTimeoutS };
  const graded = await runVerifier(rollout, { grader, target: { sandboxId } });
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
 * Runs the verifier on what the agent left. One that gives no verdict runs twice more on the very same version, then on the
 * untouched start version: a verdict there shows that the submission caused the lack of one.
 */
export async function runVerifier(
  rollout: Rollout,
  { grader, target }: { grader: GraderFacts; target: Target },
): Promise<Graded> {
  const { startVersion, task } = rollout.sandbox;
  let verdict = await verify(rollout, 0, target, 'submission');
  const { version } = verdict;
  for (let again = 1; verdict.verdict === 'none' && again <= moreTries; again += 1) {
    verdict = await verify(rollout, again, { version }, 'submission');
  }
  const { reward, rewards, evidenceRef, summary } = verdict;
  const said = { reward, rewards, evidenceRef, summary };
  if (verdict.verdict !== 'none') {
    return { grader, result: toGradeResult(grader, said), failure: null, submissionCaused: false };
  }

  const submissionCaused = await startHasVerdict(rollout, startVersion);
  const zero = submissionCaused && task.noVerdict === 'zero';
  return {
    grader,
    result: toGradeResult(grader, { ...said, reward: zero ? 0 : null, rewards: {} }),
    failure: newFailure('VerifierFailed', 'verify', summary),
    submissionCaused,
  };
}

/** Decides only whose fault the missing verdict is, so a failure in here is logged and changes nothing else. */
async function startHasVerdict(rollout: Rollout, version: string): Promise<boolean> {
  try {
    const start = await verify(rollout, 'start', { version }, 'start');
    return start.verdict !== 'none';
  } catch (error) {
    if (isCancellation(error)) throw error;
    log.warn('the start version could not be verified', {
      failure: toTrouble(error, 'verify').failure,
    });
    return false;
  }
}

async function verify(
  rollout: Rollout,
  what: number | 'start',
  target: Target,
  of: VerdictResult['of'],
): Promise<VerdictResult> {
  const { input, state } = rollout;
  const { verifyTimeoutS } = rollout.sandbox.task;
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
