import { isCancellation } from '@temporalio/workflow';
import type { Grade } from '../../activities/support/grades';
import type { GraderFacts } from '../../rollouts/task-facts';
import type { Failure, GradeResult } from '../../contracts/rollout';
import { newFailure } from '../../contracts/failures';
import { activitiesFor } from '../activity-options';
import { toTrouble } from '../failures';
import { gradeKey } from '../rollout/keys';
import { modelLimits } from '../rollout/limits';
import type { Rollout } from '../rollout/live-rollout';

/** What one grader said, and why when it gave no reward. */
export interface Graded {
  grader: GraderFacts;
  result: GradeResult;
  /** Why there is no reward, or why it counts as 0. */
  failure: Failure | null;
  submissionCaused: boolean;
}

/**
 * Asks the HUD environment for its own grade. When the agent has ended the environment, the task says what that counts as; when
 * the host has, or nobody knows what became of the grade, a new attempt follows.
 */
export async function runHudGrader(rollout: Rollout, grader: GraderFacts): Promise<Graded> {
  const { state } = rollout;
  let grade: Grade;
  try {
    grade = await activitiesFor('once', `grade ${grader.name}`, grader.timeoutS).gradeTask({
      ...common(rollout, grader),
      head: state.head,
      timeoutS: grader.timeoutS,
    });
  } catch (error) {
    if (isCancellation(error)) throw error;
    const { failure } = toTrouble(error, 'verify');
    const lost = failure.type === 'ControllerFailed' && state.stopReason === 'sandbox_lost';
    if (!lost && grader.counts) throw error;
    grade = { ...without(failure.message), ...(lost ? { gone: true } : {}) };
  }
  const graded = toGraded(rollout, grader, grade);
  if (!grade.gone || rollout.sandbox.task.hud?.noGrade !== 'zero') return graded;
  return { ...graded, result: { ...graded.result, reward: 0 } };
}

/** Runs a command in the agent's sandbox, whose exit code is the grade. */
export async function runCommandGrader(rollout: Rollout, grader: GraderFacts): Promise<Graded> {
  const grade = await activitiesFor('run', `grade ${grader.name}`, grader.timeoutS).runGrader({
    ...common(rollout, grader),
    index: grader.index ?? 0,
    timeoutS: grader.timeoutS,
  });
  return toGraded(rollout, grader, grade);
}

/** Has a model judge the agent's answer. A model that does not answer gives no reward, and costs no attempt. */
export async function runJudge(rollout: Rollout, grader: GraderFacts): Promise<Graded> {
  const { timeoutS, waitS } = modelLimits(rollout);
  const { promptRef } = rollout.sandbox;
  const limitS = waitS + grader.criteria * timeoutS;
  let grade: Grade;
  try {
    grade = await activitiesFor('judge', `grade ${grader.name}`, limitS).judge({
      ...common(rollout, grader),
      index: grader.index ?? 0,
      head: rollout.state.head,
      timeoutS,
      waitS,
      ...(promptRef ? { promptRef } : {}),
    });
  } catch (error) {
    if (isCancellation(error)) throw error;
    grade = without(toTrouble(error, 'verify').failure.message);
  }
  return toGraded(rollout, grader, grade);
}

const common = (rollout: Rollout, { name }: GraderFacts) => ({
  key: gradeKey(rollout.state, name),
  sandboxId: rollout.sandbox.sandboxId,
  leaseS: rollout.leaseS,
  taskRef: rollout.input.taskRef,
});

const without = (summary: string): Grade => ({
  reward: null,
  rewards: {},
  evidenceRef: '',
  summary: summary.slice(0, 500),
});

const principals = {
  verify: 'verifier',
  hud: 'controller',
  bash: 'sandbox',
  judge: 'model',
} as const;

function toGraded({ state }: Rollout, grader: GraderFacts, grade: Grade): Graded {
  const { gone = false, ...said } = grade;
  return {
    grader,
    result: toGradeResult(grader, said),
    failure: said.reward === null ? noGradeFailure(state, { gone, summary: said.summary }) : null,
    submissionCaused: gone,
  };
}

export const toGradeResult = (
  { name, kind, weight }: GraderFacts,
  said: Pick<GradeResult, 'reward' | 'rewards' | 'evidenceRef' | 'summary'>,
): GradeResult => ({ name, kind, principal: principals[kind], weight, ...said });

function noGradeFailure(
  { stopReason, agentFailure }: Rollout['state'],
  { gone, summary }: { gone: boolean; summary: string },
): Failure {
  if (gone && stopReason === 'sandbox_lost' && agentFailure) return agentFailure;
  return gone
    ? { ...newFailure('SandboxStopped', 'verify', summary), class: 'agent' }
    : newFailure('VerifierFailed', 'verify', summary);
}
