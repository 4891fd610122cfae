import type { GraderFacts, GradingFacts } from '../../rollouts/task-facts';
import type { RolloutInput } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { combine, namedRewards } from './combine';
import { runCommandGrader, runHudGrader, runJudge } from './graders';
import type { Graded } from './graders';
import { snapshotKey } from '../rollout/keys';
import { leaseOf } from '../rollout/limits';
import { worldOf } from '../rollout/state';
import type { RolloutEnding, RolloutState } from '../rollout/state';
import { judge, runVerifier } from './verdict';

const snapshotTimeoutS = 600;

/** What touches the sandbox comes after its snapshot, and before what needs it no more. */
const order: GraderFacts['kind'][] = ['hud', 'bash', 'verify', 'judge'];

/**
 * Has what the agent left graded, and decides what that counts as. Where a task names no graders beside its verifier, that is
 * the verifier's verdict; else each grader that counts must give a number, and they are combined.
 */
export async function grade(input: RolloutInput, state: RolloutState): Promise<RolloutEnding> {
  const { grading } = worldOf(state).task;
  if (!grading) return judge(input, state);
  state.stage = 'verify';
  const { graders } = grading;
  const verifies = graders.some(({ kind }) => kind === 'verify');
  const version = verifies ? await snapshot(input, state) : null;
  const graded: Graded[] = [];
  for (const kind of order) {
    for (const grader of graders.filter((one) => one.kind === kind)) {
      graded.push(await runGrader(input, state, { grader, version }));
    }
  }
  // As the task lists them.
  graded.sort((a, b) => graders.indexOf(a.grader) - graders.indexOf(b.grader));
  state.grades = graded.map(({ result }) => result);
  return endingOf(state, grading, graded);
}

/** Taken before any grader that could change the sandbox. */
async function snapshot(input: RolloutInput, state: RolloutState): Promise<string> {
  const { version } = await activitiesFor('run', 'grade: snapshot', snapshotTimeoutS).takeSnapshot({
    key: snapshotKey(state),
    sandboxId: worldOf(state).sandboxId,
    rolloutId: input.rolloutId,
    leaseS: leaseOf(input),
  });
  return version;
}

function runGrader(
  input: RolloutInput,
  state: RolloutState,
  { grader, version }: { grader: GraderFacts; version: string | null },
): Promise<Graded> {
  switch (grader.kind) {
    case 'hud':
      return runHudGrader(input, state, grader);
    case 'bash':
      return runCommandGrader(input, state, grader);
    case 'judge':
      return runJudge(input, state, grader);
    case 'verify':
      if (version === null) throw new Error('a verifier without a version to judge');
      return runVerifier(input, state, { grader, target: { version } });
  }
}

function endingOf(state: RolloutState, grading: GradingFacts, graded: Graded[]): RolloutEnding {
  const counting = graded.filter(({ grader }) => grader.counts);
  const results = counting.map(({ result }) => result);
  const reward = combine(grading.combine, results);
  const missing = counting.filter(({ result }) => result.reward === null);
  const caused = missing.find(({ submissionCaused }) => submissionCaused);
  if (reward === null) {
    const { failure = null } = caused ?? missing[0] ?? {};
    const submissionCaused = caused !== undefined;
    return { outcome: 'unscored', reward: null, rewards: {}, failure, submissionCaused };
  }
  // A grader that counts as 0 says why.
  const zeroed = counting.find(({ submissionCaused }) => submissionCaused);
  return {
    outcome: 'scored',
    reward,
    rewards: namedRewards(
      graded.map(({ grader, result }) => ({ ...result, counts: grader.counts })),
    ),
    failure: zeroed?.failure ?? state.agentFailure,
    submissionCaused: zeroed !== undefined,
  };
}
