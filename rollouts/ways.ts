import type { ContinuationWay, Task } from '../contracts/task';
import { DenvError } from '../denv/errors';

/** How the continuations of a task go on, and why so. */
export interface ChosenWay {
  way: ContinuationWay;
  why: string;
}

type Judged = Pick<Task, 'hud' | 'verifier' | 'grading'>;

/** What the embedded targets say of forks of memory. */
export const memoryRefusal =
  '`memory` is not supported: no target here forks the memory of processes';

const hudMemory = 'a HUD task lives in its environment\u2019s memory, which no version holds';

/** The way that somebody asked for, or the task names, or that fits it. Whether it can be gone: `refusedWay`. */
export function wayOf(
  task: Judged & Pick<Task, 'continuation'>,
  asked?: ContinuationWay,
): ChosenWay {
  if (asked !== undefined) return { way: asked, why: 'asked for' };
  if (task.continuation !== undefined) return { way: task.continuation, why: 'its task says so' };
  if (task.hud) return { way: 'replay', why: hudMemory };
  return { way: 'snapshot', why: 'its controller starts anew on the files of the checkpoint' };
}

/** Why a task's continuations cannot go that way; null when they can. */
export function refusedWay(task: Judged, way: ContinuationWay): string | null {
  if (way === 'memory') return memoryRefusal;
  if (way === 'replay' || !task.hud || verifyAlone(task)) return null;
  return `\`snapshot\`: ${hudMemory}, and its own grade is part of the reward`;
}

/**
 * Whether denv verify alone gives the reward, which looks at nothing but files: then what a HUD environment keeps in its memory
 * counts for nothing.
 */
export function verifyAlone({ verifier, grading }: Judged): boolean {
  if (grading) return grading.graders.every(({ kind }) => kind === 'verify');
  return verifier !== undefined;
}

/**
 * Decides how a rollout of this task is continued: from a snapshot, or by replaying its calls.
 * @throws DenvError capability_missing, invalid_request when it cannot be continued that way
 */
export function chooseContinuationWay(task: Task): 'snapshot' | 'replay' {
  const { way } = wayOf(task);
  const refused = refusedWay(task, way);
  if (way !== 'memory' && refused === null) return way;
  const code = way === 'memory' ? 'capability_missing' : 'invalid_request';
  throw new DenvError(code, `task ${task.id}: continuation ${refused}`);
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
