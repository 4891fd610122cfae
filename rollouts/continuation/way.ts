import type { Task } from '../../contracts/task';
import { DenvError } from '../../denv/errors';
import { refusedWay, wayOf } from '../ways';

/**
 * How a task's rollouts are gone on with.
 * @throws DenvError capability_missing, invalid_request when they cannot be that way
 */
export function continuationWayOf(task: Task): 'snapshot' | 'replay' {
  const { way } = wayOf(task);
  const refused = refusedWay(task, way);
  if (way !== 'memory' && refused === null) return way;
  const code = way === 'memory' ? 'capability_missing' : 'invalid_request';
  throw new DenvError(code, `task ${task.id}: continuation ${refused}`);
}

/** Whether a version of its sandbox holds all of a task's world that counts. */
export const isForkable = (task: Task): boolean => refusedWay(task, 'snapshot') === null;

/** @throws DenvError invalid_request when a version holds too little of the task's world to go on from */
export function refuseUnforkable(task: Task): void {
  const refused = refusedWay(task, 'snapshot');
  if (refused === null) return;
  throw new DenvError(
    'invalid_request',
    `task ${task.id} cannot be started from a version taken in it: ${refused}`,
  );
}
