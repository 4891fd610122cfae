import { once } from 'node:events';
import type { Command } from 'commander';
import type { Context } from '../context';
import { collectFolder, portNumber } from './args';
import { startInBackground } from '../stack/detach';
import { usualPorts } from '../stack/ports';
import { readStackState } from '../stack/state';
import { startStack } from '../stack/supervisor';
import type { Stack } from '../stack/supervisor';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';
import { stackLines } from './status';

const options = {
  detach: { help: 'run in the background, and return when everything answers' },
  temporalPort: {
    takes: '<n>',
    help: 'port of Temporal; 0 takes any that is free',
    parse: portNumber,
    default: usualPorts.temporal,
  },
  uiPort: {
    takes: '<n>',
    help: "port of Temporal's web page; 0 takes any that is free",
    parse: portNumber,
    default: usualPorts.ui,
  },
  denvPort: {
    takes: '<n>',
    help: 'port of the denv server; 0 takes any that is free',
    parse: portNumber,
    default: usualPorts.denv,
  },
  imageDir: {
    takes: '<folder>',
    help: 'let tasks use dir: and tar: images below this folder; give it again for more',
    parse: collectFolder,
  },
} satisfies OptionTable;

type UpOptions = OptionValues<typeof options>;

export function addUp(program: Command, context: Context): void {
  const command = program
    .command('up')
    .description('start Temporal, the denv server and a worker, and keep them running');
  addOptions(command, options)
    .addHelpText(
      'after',
      `
Examples:
  rollouts up                              in this terminal; Ctrl-C stops everything
  rollouts up --detach                     in the background; rollouts down stops it
  TEMPORAL_ADDRESS=host:7233 rollouts up   with a Temporal server that runs already

A service that ends is started again. Logs are in ${context.settings.paths.logs}.`,
    )
    .action((given: UpOptions) => (given.detach ? upDetached(context) : up(context, given)));
}

/** Runs the stack in this process until a signal says to stop. A second signal does not wait for clean ends. */
async function up(context: Context, given: UpOptions): Promise<void> {
  const { settings, env, print } = context;
  const asked = new AbortController();
  let stack: Stack | null = null;
  const onSignal = (): void => {
    if (asked.signal.aborted) {
      void stack?.stop({ now: true }).finally(() => process.exit(130));
      return;
    }
    print('stopping; a second Ctrl-C does not wait for clean ends');
    asked.abort();
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
  const { temporalPort: temporal, uiPort: ui, denvPort: denv, imageDir: imageDirs } = given;
  const chosen = { temporal, ui, denv, imageDirs };
  stack = await startStack(settings, env, chosen, print, asked.signal);
  for (const line of stackLines(stack.state(), settings)) print(line);
  print('Ready. Try: rollouts run TASKSET. Ctrl-C stops everything.');
  await keepAlive(asked.signal);
  await stack.stop();
  print('stopped');
}

/** Keeps this process alive: its children do not while one of them waits for its next start. */
async function keepAlive(until: AbortSignal): Promise<void> {
  const timer = setInterval(() => {}, 60_000);
  if (!until.aborted) await once(until, 'abort');
  clearInterval(timer);
}

/** Starts this same command again, in the background. */
async function upDetached(context: Context): Promise<void> {
  const { settings, env, print } = context;
  const running = readStackState(settings.paths.run);
  if (running?.ready) {
    print('The stack is running already.');
    for (const line of stackLines(running, settings)) print(line);
    return;
  }
  const args = process.argv.slice(1).filter((arg) => arg !== '--detach');
  const state = await startInBackground(settings, env, args);
  for (const line of stackLines(state, settings)) print(line);
  print('Ready, in the background. Try: rollouts run TASKSET. Stop it with: rollouts down');
}
