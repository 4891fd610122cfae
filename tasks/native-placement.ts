import { HudTask } from '../contracts/task';
import { mergeDefaults } from './merge';
import { PlacementError } from './placement';
import type { LocalTree, Place } from './placement';
import type { Complaint } from './refusals';

export interface PlacedTask {
  /** Without its `runtime`, and with the environment that came of it. */
  task: unknown;
  trees: LocalTree[];
  complaints: Complaint[];
}

/**
 * A HUD task of a native taskset that names no image, version or address is placed by its `runtime`, or by whatever was asked
 * for on the command line; the task's own `environment` is laid over that.
 */
export async function placeNativeTask(merged: unknown, place?: Place): Promise<PlacedTask> {
  if (!isObject(merged)) return { task: merged, trees: [], complaints: [] };
  const { runtime, ...task } = merged;
  const refuse = (message: string, remedy: string) => ({
    task,
    trees: [],
    complaints: [{ path: ['runtime'], message, remedy }],
  });
  if (runtime !== undefined && typeof runtime !== 'string') {
    return refuse(`${JSON.stringify(runtime)} does not fit`, 'give a text');
  }
  const hud = HudTask.safeParse(task['hud']);
  if (task['hud'] === undefined && runtime !== undefined) {
    return refuse('only a task with `hud` has one', 'say `environment`');
  }
  if (saysWhere(task['environment'])) {
    if (runtime === undefined) return { task, trees: [], complaints: [] };
    return refuse('`environment` says where it runs', 'keep one of them');
  }
  // The schema complains of a malformed HUD task.
  if (!hud.success || !place) return { task, trees: [], complaints: [] };
  try {
    const { environment, trees } = await place(
      {
        id: String(task['id']),
        env: hud.data.env ?? null,
        task: hud.data.id,
        args: hud.data.args ?? {},
        tags: {},
        image: null,
        runtime: runtime ?? null,
      },
      null,
    );
    return { task: mergeDefaults({ environment }, task), trees, complaints: [] };
  } catch (error) {
    if (!(error instanceof PlacementError)) throw error;
    const { path, ...words } = error.complaint;
    const own = path[0] === 'env' ? ['hud', ...path] : path;
    return { task, trees: [], complaints: [{ path: own, ...words }] };
  }
}

function saysWhere(environment: unknown): boolean {
  return (
    isObject(environment) && ['image', 'version', 'address'].some((field) => field in environment)
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
