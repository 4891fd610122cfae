import { isCancellation } from '@temporalio/workflow';
import type { Grade } from '../../activities/support/grades';
import type { GraderFacts } from '../../rollouts/task-facts';
import type { Failure, GradeResult, RolloutInput } from '../../contracts/rollout';
import { newFailure } from '../../contracts/failures';
import { activitiesFor } from '../activity-options';
import { troubleOf } from '../failures';
import { gradeKey } from '../rollout/keys';
import { leaseOf, modelLimitsOf } from '../rollout/limits';
import { worldOf } from '../rollout/state';
import type { RolloutState } from '../rollout/state';

/** What came of one grader. */
export interface Graded {
  grader: GraderFacts;
  result: GradeResult;
  /** Why there is no reward, or why it counts as 0. */
  failure: Failure | null;
  submissionCaused: boolean;
}

/**
 * The HUD environment's own grade. When it can no longer be asked since the agent ended it, that is the agent's doing, and counts
 * as the task says; when the host did, or nobody knows what became of the grade, a new attempt follows.
 */
export async function runHudGrader(
  input: RolloutInput,
  state: RolloutState,
  grader: GraderFacts,
): Promise<Graded> {
  let grade: Grade;
  try {
    grade = await activitiesFor('once', `grade ${grader.name}`, grader.timeoutS).gradeTask({
      ...common(input, state, grader),
      head: state.head,
      timeoutS: grader.timeoutS,
    });
  } catch (error) {
    if (isCancellation(error)) throw error;
    const { failure } = troubleOf(error, 'verify');
    const lost = failure.type === 'ControllerFailed' && state.stopReason === 'sandbox_lost';
    if (!lost && grader.counts) throw error;
    grade = { ...without(failure.message), ...(lost ? { gone: true } : {}) };
  }
  const graded = gradedAs(state, grader, grade);
  if (!grade.gone || worldOf(state).task.hud?.noGrade !== 'zero') return graded;
  return { ...graded, result: { ...graded.result, reward: 0 } };
}

/** A command in the agent's sandbox. */
export async function runCommandGrader(
  input: RolloutInput,
  state: RolloutState,
  grader: GraderFacts,
): Promise<Graded> {
  const grade = await activitiesFor('run', `grade ${grader.name}`, grader.timeoutS).runGrader({
    ...common(input, state, grader),
    index: grader.index ?? 0,
    timeoutS: grader.timeoutS,
  });
  return gradedAs(state, grader, grade);
}

/** A model that judges the agent's answer. One that cannot be had gives no reward, and costs no attempt. */
export async function runJudge(
  input: RolloutInput,
  state: RolloutState,
  grader: GraderFacts,
): Promise<Graded> {
  const { timeoutS, waitS } = modelLimitsOf(input);
  const { promptRef } = worldOf(state);
  const limitS = waitS + grader.criteria * timeoutS;
  let grade: Grade;
  try {
    grade = await activitiesFor('run', `grade ${grader.name}`, limitS).judge({
      ...common(input, state, grader),
      index: grader.index ?? 0,
      head: state.head,
      timeoutS,
      waitS,
      ...(promptRef ? { promptRef } : {}),
    });
  } catch (error) {
    if (isCancellation(error)) throw error;
    grade = without(troubleOf(error, 'verify').failure.message);
  }
  return gradedAs(state, grader, grade);
}

const common = (input: RolloutInput, state: RolloutState, { name }: GraderFacts) => ({
  key: gradeKey(state, name),
  sandboxId: worldOf(state).sandboxId,
  leaseS: leaseOf(input),
  taskRef: input.taskRef,
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

function gradedAs(state: RolloutState, grader: GraderFacts, grade: Grade): Graded {
  const { gone = false, ...said } = grade;
  return {
    grader,
    result: resultOf(grader, said),
    failure: said.reward === null ? failureOf(state, { gone, summary: said.summary }) : null,
    submissionCaused: gone,
  };
}

export const resultOf = (
  { name, kind, weight }: GraderFacts,
  said: Pick<GradeResult, 'reward' | 'rewards' | 'evidenceRef' | 'summary'>,
): GradeResult => ({ name, kind, principal: principals[kind], weight, ...said });

function failureOf(
  { stopReason, agentFailure }: RolloutState,
  { gone, summary }: { gone: boolean; summary: string },
): Failure {
  if (gone && stopReason === 'sandbox_lost' && agentFailure) return agentFailure;
  return gone
    ? { ...newFailure('SandboxStopped', 'verify', summary), class: 'agent' }
    : newFailure('VerifierFailed', 'verify', summary);
}
