import { dirname, resolve } from 'node:path';
import { PlacementError } from '../../tasks/placement';
import type { Place, PlacementTask } from '../../tasks/placement';
import { UsageError } from '../errors';
import { wouldServe } from './elsewhere';
import { runtimeKinds } from './index';
import { loadPlacement, placement } from './placement';
import type { Placement } from './placement';
import type { AskedRuntime, RuntimeKind, RuntimeOptions } from './runtime';
import { sourcesBeside } from './sources';

export interface Placer {
  place: Place;
  /** To be asked when all tasks have been placed. @throws UsageError for options that none had a use for */
  checkOptions(): void;
  /** A line for each place that was found for tasks, and why. */
  told(): string[];
}

/**
 * Finds the place of each HUD task of a taskset: what its own row says, else what `--placement` says, else `--runtime`, else
 * what stands with the taskset.
 * @throws UsageError, now or when a task is placed
 */
export async function createPlacer(file: string, options: RuntimeOptions): Promise<Placer> {
  const beside = sourcesBeside(file);
  const folder = dirname(resolve(file));
  const custom = options.placement === undefined ? null : await loadPlacement(options.placement);
  const told = new Map<string, number>();
  const used = new Set<RuntimeKind>();
  const find = finder(options, custom, folder, beside);

  return {
    async place(task, config) {
      const { asked, kind, why } = await find(task);
      used.add(kind);
      const placed = await kind.place({ task, asked, config, options, beside });
      const line = `${asked.words}${why === null ? '' : `, since ${why}`}`;
      told.set(line, (told.get(line) ?? 0) + 1);
      return placed;
    },
    checkOptions: () => refuseUseless(options, used),
    told: () =>
      [...told].map(([line, count]) => `${count} ${count === 1 ? 'task' : 'tasks'} on ${line}`),
  };
}

interface Found {
  asked: AskedRuntime;
  kind: RuntimeKind;
  why: string | null;
}

function finder(
  options: RuntimeOptions,
  custom: Placement | null,
  folder: string,
  beside: string[],
): (task: PlacementTask) => Promise<Found> {
  const ofUsage = (source: string) => (message: string, remedy: string) =>
    new UsageError(`${source}: ${message}; ${remedy}`);
  const ofRow = (message: string, remedy: string) =>
    new PlacementError({ path: ['runtime'], message, remedy });

  return async (task) => {
    if (task.runtime !== null) return found(task.runtime, folder, ofRow);
    if (custom) {
      const where = ofUsage(`--placement ${options.placement}, for task "${task.id}"`);
      const words = await custom(task);
      if (typeof words === 'string') return found(words, folder, where);
      if (words !== null && words !== undefined) {
        throw where(
          `it returned ${typeof words}`,
          'return a text, as --runtime takes one, or null',
        );
      }
    }
    if (options.runtime !== undefined) {
      return found(options.runtime, process.cwd(), ofUsage(`--runtime ${options.runtime}`));
    }
    const resolved = placement(task, beside);
    if (resolved) return found(resolved.words, folder, ofUsage(resolved.words), resolved.why);
    const env = task.env === null ? 'its environment' : `environment "${task.env}"`;
    throw new UsageError(
      `where does ${env} run? Nothing with the taskset says so for task "${task.id}". Give --runtime with one of: ${wouldServe(task, beside).join(', ')}`,
    );
  };
}

function found(
  words: string,
  from: string,
  refuse: AskedRuntime['refuse'],
  why: string | null = null,
): Found {
  const at = words.indexOf(':');
  const name = at < 0 ? words : words.slice(0, at);
  const argument = at < 0 || at === words.length - 1 ? null : words.slice(at + 1);
  const kind = runtimeKinds.find((candidate) => candidate.name === name);
  if (!kind) {
    const known = runtimeKinds.map(({ syntax }) => syntax).join(', ');
    throw refuse(`${JSON.stringify(name)} is no runtime`, `it is one of: ${known}`);
  }
  if (kind.target === null && argument !== null) throw refuse('takes no argument', `write ${name}`);
  return { asked: { words, argument, from, refuse }, kind, why };
}

const particular = ['image', 'command', 'env', 'shared'] as const;

/** An option that nothing had a use for would be left aside in silence. */
function refuseUseless(options: RuntimeOptions, used: Set<RuntimeKind>): void {
  const names = [...used].map(({ name }) => name).join(', ');
  if (used.size === 0) {
    const given = (['runtime', 'placement', ...particular] as const).find(
      (option) => options[option] !== undefined,
    );
    if (given === undefined) return;
    throw new UsageError(
      `--${given}: no task of this taskset asks for a runtime; each says in its \`environment\` where it runs`,
    );
  }
  for (const option of particular) {
    if (options[option] === undefined) continue;
    if ([...used].some(({ takes }) => takes.includes(option))) continue;
    const takers = runtimeKinds.filter(({ takes }) => takes.includes(option));
    throw new UsageError(
      `--${option}: not with the runtime ${names}; with ${takers.map(({ name }) => name).join(', ')}`,
    );
  }
}
