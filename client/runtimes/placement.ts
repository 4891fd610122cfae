import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { PlacementTask } from '../../tasks/placement';
import { reasonOf, UsageError } from '../errors';
import { isOwnImage } from './denv';
import { environmentsIn } from './sources';

/**
 * Says where a task runs: a runtime as `--runtime` takes one, relative paths from the taskset's folder; null where it does not
 * know. `--placement FILE.mjs` puts the `placement` that a file exports before this one.
 */
export type Placement = (
  task: PlacementTask,
) => string | null | undefined | Promise<string | null | undefined>;

/**
 * What runs a task by what stands with it: the image that its row asks for, or a Python file beside the taskset that defines
 * its environment. Null where nothing says so; nothing is guessed.
 */
export function placement(
  task: PlacementTask,
  beside: string[],
): { words: string; why: string } | null {
  if (task.image !== null) {
    return isOwnImage(task.image)
      ? { words: 'denv', why: 'its row names an image of the denv server' }
      : { words: 'docker', why: 'its row names an image' };
  }
  const source = beside.find((file) => environmentsIn(file).includes(task.env ?? ''));
  if (source === undefined) return null;
  return { words: `local:${source}`, why: `it defines environment "${task.env}"` };
}

/** @throws UsageError */
export async function loadPlacement(file: string): Promise<Placement> {
  const path = resolve(file);
  if (!existsSync(path)) throw new UsageError(`--placement ${file}: there is no such file`);
  let module: unknown;
  try {
    module = await import(pathToFileURL(path).href);
  } catch (error) {
    throw new UsageError(`--placement ${file}: ${reasonOf(error)}`);
  }
  const found: unknown = Reflect.get(Object(module), 'placement');
  if (typeof found === 'function') return found as Placement; // what it returns is checked at each call
  throw new UsageError(
    `--placement ${file}: export a function of the name placement, as in: export const placement = (task) => 'local:env.py'`,
  );
}
