import { randomBytes } from 'node:crypto';
import type { Command } from 'commander';
import type { LoadedTaskset } from '../../tasks/loaded-taskset';
import { PriceError } from '../../tasks/prices';
import { TasksetRefusedError } from '../../tasks/refusals';
import { loadTaskset } from '../../tasks/rows';
import { TreeRefusedError } from '../../tasks/tree-tar';
import { connect } from '../api/connect';
import type { Rollouts } from '../api/connect';
import type { Context } from '../context';
import { UsageError } from '../errors';
import { parseModelArgs } from './model-options';
import { chooseTasks, planBatch } from '../api/plan';
import type { BatchPlan, RunRequest } from '../api/plan';
import { startBatch } from '../api/rollouts';
import { createPlacer } from '../runtimes/placer';
import type { RuntimeOptions } from '../runtimes/runtime';
import { readStackState } from '../stack/state';
import { followBatch, printReport } from '../follow/batch';
import { addRunOptions } from './run-options';
import type { RunOptions } from './run-options';

export function addRun(program: Command, context: Context): void {
  const command = program
    .command('run')
    .description('run a taskset as a batch of rollouts')
    .argument('<taskset>', 'a .yaml, .json or .jsonl file, of ours or of HUD task rows');
  addRunOptions(command).action((taskset: string, options: RunOptions) =>
    run(context, taskset, options),
  );
}

async function run(context: Context, file: string, options: RunOptions): Promise<void> {
  const { settings } = context;
  const taskset = await load(context, file, options);
  const request: RunRequest = {
    ...options,
    batchId: options.batch ?? newBatchId(taskset.name),
    settings: parseModelArgs(options.modelArg ?? []),
    taskIds: options.task ?? [],
  };
  const priceFile = settings.paths.prices;
  // What cannot be run is refused before anything is asked of the stack.
  await refusing(() => chooseTasks(taskset, request, priceFile));
  const rollouts = await connect(settings);
  try {
    const plan = await refusing(() => planBatch(taskset, request, { ...rollouts, priceFile }));
    await start(context, rollouts, plan, options);
    if (options.detach) return printDetached(context, plan, options);
    const report = await followBatch(context, rollouts, plan.batchId, { cancelOnInterrupt: true });
    printReport(context, report, options);
  } finally {
    await rollouts.close();
  }
}

async function load(
  context: Context,
  file: string,
  options: RuntimeOptions,
): Promise<LoadedTaskset> {
  const { settings, note } = context;
  const placer = await createPlacer(file, options);
  const places = {
    imagesAreHere: settings.denvServer === null,
    imageDirs: readStackState(settings.paths.run)?.denv.imageDirs ?? undefined,
  };
  const taskset = await refusing(() => loadTaskset(file, places, placer.place));
  placer.checkOptions();
  for (const line of [...placer.told(), ...(taskset.notes ?? [])]) note(line);
  return taskset;
}

function printDetached({ print }: Context, plan: BatchPlan, options: RunOptions): void {
  const { batchId, rollouts } = plan;
  if (options.json) print(JSON.stringify({ batchId, declared: rollouts.length }));
  else print(`batch ${batchId} runs in the background; see: rollouts watch ${batchId}`);
}

async function start(
  context: Context,
  rollouts: Rollouts,
  plan: BatchPlan,
  options: RunOptions,
): Promise<void> {
  if (!rollouts.searchAttributes) {
    context.note(
      'Temporal has no search attributes for rollouts and refuses to add them; the batch runs without.',
    );
  }
  const { knownBefore } = await startBatch(rollouts, plan, options.concurrency);
  const how = knownBefore
    ? 'was started before; attached to it'
    : `started, with ${plan.rollouts.length} rollouts`;
  context.note(`batch ${plan.batchId} ${how}`);
}

/** Turns whatever a taskset is refused for into bad usage. */
async function refusing<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (
      error instanceof TasksetRefusedError ||
      error instanceof TreeRefusedError ||
      error instanceof PriceError
    ) {
      throw new UsageError(error.message);
    }
    throw error;
  }
}

function newBatchId(taskset: string): string {
  const time = new Date().toISOString().replace(/[-:]/g, '').replace('T', '-').slice(0, 15);
  return `${taskset}-${time}-${randomBytes(2).toString('hex')}`;
}
