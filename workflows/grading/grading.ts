import type { GraderFacts, GradingFacts } from '../../rollouts/task-facts';
import { snapshotKey } from '../rollout/keys';
import type { Rollout } from '../rollout/live-rollout';
import { takeSnapshot } from '../rollout/sandbox';
import type { RolloutEnding } from '../rollout/state';
import { combine, namedRewards } from './combine';
import { runCommandGrader, runHudGrader, runJudge } from './graders';
import type { Graded } from './graders';
import { gradeSubmission, runVerifier } from './verdict';

/** Graders that touch the sandbox run after its snapshot, and before those that no longer need it. */
const order: GraderFacts['kind'][] = ['hud', 'bash', 'verify', 'judge'];

/**
 * Grades what the agent left, and decides how the rollout ends. Where a task names no graders beside its verifier, the verifier's
 * verdict is the reward; else each grader that counts must give a number, and they are combined.
 */
export async function grade(rollout: Rollout): Promise<RolloutEnding> {
  const { state } = rollout;
  const { grading } = rollout.sandbox.task;
  if (!grading) return gradeSubmission(rollout);
  state.stage = 'verify';
  const { graders } = grading;
  const verifies = graders.some(({ kind }) => kind === 'verify');
  const version = verifies ? await snapshot(rollout) : null;
  const graded: Graded[] = [];
  for (const kind of order) {
    for (const grader of graders.filter((one) => one.kind === kind)) {
      graded.push(await runGrader(rollout, { grader, version }));
    }
  }
  // As the task lists them.
  graded.sort((a, b) => graders.indexOf(a.grader) - graders.indexOf(b.grader));
  state.grades = graded.map(({ result }) => result);
  return toEnding(rollout, grading, graded);
}

/** Taken before any grader that could change the sandbox. */
async function snapshot(rollout: Rollout): Promise<string> {
  const { version } = await takeSnapshot(rollout, snapshotKey(rollout.state), 'grade: snapshot');
  return version;
}

function runGrader(
  rollout: Rollout,
  { grader, version }: { grader: GraderFacts; version: string | null },
): Promise<Graded> {
  switch (grader.kind) {
    case 'hud':
      return runHudGrader(rollout, grader);
    case 'bash':
      return runCommandGrader(rollout, grader);
    case 'judge':
      return runJudge(rollout, grader);
    case 'verify':
      if (version === null) throw new Error('a verifier needs a version to grade');
      return runVerifier(rollout, { grader, target: { version } });
  }
}

function toEnding({ state }: Rollout, grading: GradingFacts, graded: Graded[]): RolloutEnding {
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
