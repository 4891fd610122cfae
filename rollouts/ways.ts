import type { ContinuationWay, Task } from '../contracts/task';
import { DenvError } from '../denv/errors';

/** How the continuations of a task go on, and why so. */
export interface ChosenWay {
  way: ContinuationWay;
  why: string;
}

/** What decides it, of a task as it was written or loaded. */
interface Graded {
  hud?: unknown;
  verifier?: unknown;
  grading?: { graders: { kind?: unknown }[] };
}

export const hudInMemory =
  'a HUD task lives in its environment\u2019s memory, which no version holds';

/** Chooses the way that somebody asked for, or the task names, or that fits it. `refusedWay` says whether it is possible. */
export function chooseWay(
  task: Graded & Pick<Task, 'continuation'>,
  asked?: ContinuationWay,
): ChosenWay {
  if (asked !== undefined) return { way: asked, why: 'asked for' };
  if (task.continuation !== undefined) return { way: task.continuation, why: 'its task says so' };
  if (task.hud) return { way: 'replay', why: hudInMemory };
  return { way: 'snapshot', why: 'its controller starts anew on the files of the checkpoint' };
}

/** Says why a task's rollouts cannot be continued that way; null when they can. */
export function refusedWay(task: Graded, way: ContinuationWay): string | null {
  if (way === 'replay' || task.hud === undefined || isVerifiedAlone(task)) return null;
  return `\`snapshot\`: ${hudInMemory}, and its own grade is part of the reward`;
}

/**
 * Whether denv verify alone gives the reward, which looks at nothing but files: then what a HUD environment keeps in its memory
 * counts for nothing.
 */
function isVerifiedAlone({ verifier, grading }: Graded): boolean {
  if (grading) return grading.graders.every(({ kind }) => kind === 'verify');
  return verifier !== undefined;
}

/**
 * Decides how a rollout of this task is continued: from a snapshot, or by replaying its calls.
 * @throws DenvError invalid_request when it cannot be continued that way
 */
export function chooseContinuationWay(task: Task): ContinuationWay {
  const { way } = chooseWay(task);
  const refused = refusedWay(task, way);
  if (refused === null) return way;
  throw new DenvError('invalid_request', `task ${task.id}: continuation ${refused}`);
}

/** Whether a version of a task's sandbox holds everything that its reward depends on. */
export const isForkable = (task: Task): boolean => refusedWay(task, 'snapshot') === null;

/** @throws DenvError invalid_request when a version of the task's sandbox holds too little of it to start from */
export function refuseUnforkable(task: Task): void {
  const refused = refusedWay(task, 'snapshot');
  if (refused === null) return;
  throw new DenvError(
    'invalid_request',
    `task ${task.id} cannot be started from a version taken in it: ${refused}`,
  );
}
