import type { Command } from 'commander';
import { AgentKind } from '../../contracts/rollout';
import { KeepPolicy } from '../../contracts/task';
import { checkpointPolicy, choice, collect, wholeNumberFrom } from './args';
import { runtimeKinds } from '../runtimes';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = {
  agent: {
    takes: '<kind>',
    help: 'model, oracle (runs the solutions of the tasks) or nop (does nothing)',
    parse: choice(AgentKind.options),
    default: 'model' as const,
  },
  model: {
    takes: '<name>',
    help: 'openai/<name> (any compatible endpoint), anthropic/<name>, google/<name> or scripted',
  },
  baseUrl: { takes: '<url>', help: 'where the model answers, as in http://host:8000/v1' },
  modelArg: {
    takes: '<name=value>',
    help: 'temperature, top_p, seed, max_tokens, system_prompt, or a field of the request body; give it again for more',
    parse: collect,
  },
  group: {
    takes: '<n>',
    help: 'rollouts of each task',
    parse: wholeNumberFrom(1, 1000),
    default: 1,
  },
  concurrency: {
    takes: '<n>',
    help: 'most rollouts at once',
    parse: wholeNumberFrom(1, 1000),
    default: 8,
  },
  batch: {
    takes: '<id>',
    help: 'name of the batch; a name that was used before attaches to that batch and starts nothing twice',
  },
  maxSteps: {
    takes: '<n>',
    help: 'most steps of a rollout, in place of the limits of the tasks',
    parse: wholeNumberFrom(1, 10_000),
  },
  checkpoints: {
    takes: '<when>',
    help: 'take one before each step (step), before steps that change something (mutating), before each n-th step (<n>) or never',
    parse: checkpointPolicy,
  },
  keep: {
    takes: '<which>',
    help: 'which versions to keep after the end: final, all, best or none',
    parse: choice(KeepPolicy.options),
  },
  task: { takes: '<id>', help: 'run only this task; give it again for more', parse: collect },
  json: { help: 'print one JSON object at the end, and nothing else on stdout' },
  detach: { help: 'return when the batch is started' },
  runtime: { takes: '<runtime>', help: 'where HUD environments run; see below' },
  placement: {
    takes: '<file>',
    help: 'a JavaScript module whose export `placement` names the runtime of each task',
  },
  image: {
    takes: '<image>',
    help: 'with runtime denv or docker: the image for rows that name none',
  },
  command: {
    takes: '<line>',
    help: 'with runtime denv: the command that serves the environment in that image',
  },
  env: {
    takes: '<name>',
    help: 'with runtime local or subprocess: which environment, where a source defines several',
  },
  shared: {
    takes: '<n>',
    help: 'with runtime tcp: most rollouts at once at that address',
    parse: wholeNumberFrom(1, 1000),
  },
} satisfies OptionTable;

export type RunOptions = OptionValues<typeof options>;

/** Adds what `run` may be told, and its help. */
export function addRunOptions(command: Command): Command {
  return addOptions(command, options).addHelpText(
    'after',
    `
Examples:
  rollouts run tasks.yaml --agent oracle
  rollouts run tasks.yaml --model openai/my-model --base-url http://127.0.0.1:8000/v1 --group 4
  rollouts run tasks.yaml --model openai/my-model --model-arg temperature=0.7 --model-arg top_k=20
  rollouts run tasks.yaml --model scripted --batch nightly --json
  rollouts run tasks.yaml --model scripted --checkpoints 5 --keep best --group 8
  rollouts run hud-tasks.json --runtime local:env.py --model anthropic/my-model

Runtimes of HUD tasks (rollouts targets says which of them work here):
${runtimeLines().join('\n')}
Without --runtime a task runs where its row's image says, or by the env.py beside the taskset that defines its environment; run
prints which. A row's own \`runtime\` comes before everything else.

API keys come from the worker's environment. Each is sent to its own base URL and nowhere else: OPENAI_API_KEY to
OPENAI_BASE_URL, ANTHROPIC_API_KEY to ANTHROPIC_BASE_URL, GEMINI_API_KEY (or GOOGLE_API_KEY) to GOOGLE_BASE_URL.

Ctrl-C cancels the batch and waits for its clean-up; a second one leaves at once. When the terminal is closed the batch keeps
running.

Exit codes: 0 all scored, 3 some are not, 2 bad usage or a refused taskset, 130 left by Ctrl-C, 1 anything else.`,
  );
}

function runtimeLines(): string[] {
  return runtimeKinds.flatMap(({ syntax, what, target, missing }) => [
    `  ${syntax}`,
    `      ${what}${target === null ? `; not supported here: that takes ${missing()}` : ''}`,
  ]);
}
