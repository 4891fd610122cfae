import type { Command } from 'commander';
import { AgentKind } from '../../contracts/rollout';
import { KeepPolicy } from '../../contracts/task';
import type { CheckpointPolicy } from '../../contracts/task';
import { checkpointPolicy, choice, collect, wholeNumberFrom } from './args';
import { runtimeKinds } from '../runtimes';
import type { RuntimeOptions } from '../runtimes/runtime';

export interface RunOptions extends RuntimeOptions {
  agent: AgentKind;
  model?: string;
  baseUrl?: string;
  modelArg?: string[];
  group: number;
  concurrency: number;
  batch?: string;
  maxSteps?: number;
  checkpoints?: CheckpointPolicy;
  keep?: KeepPolicy;
  task?: string[];
  json?: boolean;
  detach?: boolean;
}

/** What `run` may be told, and how to tell it. */
export function addRunOptions(command: Command): Command {
  return command
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
    .option(
      '--checkpoints <when>',
      'step (before each), mutating (before those that change something), <n> (each n-th) or never',
      checkpointPolicy,
    )
    .option(
      '--keep <which>',
      'versions kept after the end: final, all, best or none',
      choice(KeepPolicy.options),
    )
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
  rollouts run tasks.yaml --model scripted --checkpoints 5 --keep best --group 8
  rollouts run hud-tasks.json --runtime local:env.py --model anthropic/my-model

Runtimes of HUD tasks; rollouts targets says which of them work here:
${runtimeLines().join('\n')}
Left out, a runtime is taken from what stands with the taskset, and said: a row's image, or an env.py beside the file that
defines its environment. A row may name its own (\`runtime\`), which goes before all else.

API keys come from the worker's environment, and each goes to its own base URL and nowhere else: OPENAI_API_KEY to
OPENAI_BASE_URL, ANTHROPIC_API_KEY to ANTHROPIC_BASE_URL, GEMINI_API_KEY (or GOOGLE_API_KEY) to GOOGLE_BASE_URL.
Ctrl-C cancels the batch and waits for its clean-up; a second one leaves at once. A closed terminal changes nothing.

Exit codes: 0 all scored, 3 some are not, 2 bad usage or a refused taskset, 1 anything else.`,
    );
}

function runtimeLines(): string[] {
  return runtimeKinds.flatMap(({ syntax, what, target, missing }) => [
    `  ${syntax}`,
    `      ${what}${target === null ? `: not from here, it would take ${missing()}` : ''}`,
  ]);
}
