import { randomBytes } from 'node:crypto';
import type { Command } from 'commander';
import { AgentKind } from '../../contracts/rollout';
import type { LoadedTaskset } from '../../tasks/loaded';
import { PriceError } from '../../tasks/prices';
import { TasksetRefusedError } from '../../tasks/refusals';
import { loadTaskset } from '../../tasks/rows';
import { TreeRefusedError } from '../../tasks/tree-tar';
import { connect } from '../connect';
import type { Rollouts } from '../connect';
import type { Context } from '../context';
import { UsageError } from '../errors';
import { parseModelArgs } from '../model-args';
import { choice, collect, wholeNumberFrom } from '../options';
import { chooseTasks, planBatch } from '../plan';
import type { BatchPlan, RunRequest } from '../plan';
import { startBatch } from '../rollouts';
import { runtimeKinds } from '../runtimes';
import { createPlacer } from '../runtimes/placer';
import type { RuntimeOptions } from '../runtimes/runtime';
import { readStackState } from '../stack/state';
import { followBatch, printReport } from '../follow';

interface RunOptions extends RuntimeOptions {
  agent: AgentKind;
  model?: string;
  baseUrl?: string;
  modelArg?: string[];
  group: number;
  concurrency: number;
  batch?: string;
  maxSteps?: number;
  task?: string[];
  json?: boolean;
  detach?: boolean;
}

export function addRun(program: Command, context: Context): void {
  program
    .command('run')
    .description('run a taskset as a batch of rollouts')
    .argument('<taskset>', 'a .yaml, .json or .jsonl file, of ours or of HUD task rows')
    .option(
      '--agent <kind>',
      'model, oracle (runs the solutions) or nop',
      choice(AgentKind.options),
      'model',
    )
    .option(
      '--model <name>',
      'openai/<name> (any compatible endpoint), anthropic/<name>, google/<name> or scripted',
    )
    .option('--base-url <url>', 'where the model answers, as in http://host:8000/v1')
    .option(
      '--model-arg <name=value>',
      'temperature, top_p, seed, max_tokens, system_prompt, or a field of the request body; again for more',
      collect,
    )
    .option('--group <n>', 'rollouts of each task', wholeNumberFrom(1, 1000), 1)
    .option('--concurrency <n>', 'rollouts at once', wholeNumberFrom(1, 1000), 8)
    .option(
      '--batch <id>',
      'name of the batch; the same again re-attaches and starts nothing twice',
    )
    .option('--max-steps <n>', 'instead of the limits of the tasks', wholeNumberFrom(1, 10_000))
    .option('--task <id>', 'only this task; again for more', collect)
    .option('--json', 'print one JSON object at the end, and nothing else on stdout')
    .option('--detach', 'return when the batch is started')
    .option('--runtime <runtime>', 'where HUD environments run; see below')
    .option('--placement <file>', 'a module whose export `placement` says it task by task')
    .option('--image <image>', 'for denv and docker: what to start, where a row names no image')
    .option('--command <line>', 'for denv: what serves the environment in that image')
    .option('--env <name>', 'for local and subprocess: this one of several in a source')
    .option('--shared <n>', 'for tcp: rollouts at once at that address', wholeNumberFrom(1, 1000))
    .addHelpText(
      'after',
      `
Examples:
  rollouts run tasks.yaml --agent oracle
  rollouts run tasks.yaml --model openai/my-model --base-url http://127.0.0.1:8000/v1 --group 4
  rollouts run tasks.yaml --model openai/my-model --model-arg temperature=0.7 --model-arg top_k=20
  rollouts run tasks.yaml --model scripted --batch nightly --json
  rollouts run hud-tasks.json --runtime local:env.py --model anthropic/my-model

Runtimes of HUD tasks; rollouts targets says which of them work here:
${runtimeLines().join('\n')}
Left out, a runtime is taken from what stands with the taskset, and said: a row's image, or an env.py beside the file that
defines its environment. A row may name its own (\`runtime\`), which goes before all else.

API keys come from the worker's environment, and each goes to its own base URL and nowhere else: OPENAI_API_KEY to
OPENAI_BASE_URL, ANTHROPIC_API_KEY to ANTHROPIC_BASE_URL, GEMINI_API_KEY (or GOOGLE_API_KEY) to GOOGLE_BASE_URL.
Ctrl-C cancels the batch and waits for its clean-up; a second one leaves at once. A closed terminal changes nothing.

Exit codes: 0 all scored, 3 some are not, 2 bad usage or a refused taskset, 1 anything else.`,
    )
    .action((taskset: string, options: RunOptions) => run(context, taskset, options));
}

async function run(context: Context, file: string, options: RunOptions): Promise<void> {
  const { settings } = context;
  const taskset = await load(context, file, options);
  const request: RunRequest = {
    batchId: options.batch ?? newBatchId(taskset.name),
    agent: options.agent,
    model: options.model,
    baseUrl: options.baseUrl,
    settings: parseModelArgs(options.modelArg ?? []),
    group: options.group,
    maxSteps: options.maxSteps,
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

function runtimeLines(): string[] {
  return runtimeKinds.flatMap(({ syntax, what, missing }) => [
    `  ${syntax}`,
    `      ${what}${missing === null ? '' : `: not from here, it would take ${missing}`}`,
  ]);
}

function printDetached({ print }: Context, plan: BatchPlan, options: RunOptions): void {
  const { batchId, rollouts } = plan;
  if (options.json) print(JSON.stringify({ batchId, declared: rollouts.length }));
  else print(`batch ${batchId} goes on; see: rollouts watch ${batchId}`);
}

async function start(
  context: Context,
  rollouts: Rollouts,
  plan: BatchPlan,
  options: RunOptions,
): Promise<void> {
  if (!rollouts.searchAttributes) {
    context.note(
      'Temporal has no search attributes for rollouts and refuses to add them; running without.',
    );
  }
  const { knownBefore } = await startBatch(rollouts, plan, options.concurrency);
  const how = knownBefore
    ? 'was started before; attached to it'
    : `of ${plan.rollouts.length} rollouts started`;
  context.note(`batch ${plan.batchId} ${how}`);
}

/** Whatever a taskset is refused for is bad usage. */
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
