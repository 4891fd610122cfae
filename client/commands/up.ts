import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Command } from 'commander';
import type { Context } from '../context';
import { UserError } from '../errors';
import { collectFolder, portNumber } from './args';
import { prepareHome } from '../settings';
import { readStackState } from '../stack/state';
import type { StackState } from '../stack/state';
import { startStack } from '../stack/supervisor';
import type { Stack } from '../stack/supervisor';
import { stackLines } from './status';

interface UpOptions {
  detach?: boolean;
  temporalPort: number;
  uiPort: number;
  denvPort: number;
  imageDir?: string[];
}

export function addUp(program: Command, context: Context): void {
  program
    .command('up')
    .description('start Temporal, the denv server and a worker, and keep them running')
    .option('--detach', 'go on in the background and return when everything answers')
    .option('--temporal-port <n>', 'port of Temporal; 0: any that is free', portNumber, 7233)
    .option('--ui-port <n>', "port of Temporal's web page; 0: any", portNumber, 8233)
    .option('--denv-port <n>', 'port of the denv server; 0: any', portNumber, 7300)
    .option(
      '--image-dir <folder>',
      'let tasks use dir: and tar: images below it; again for more',
      collectFolder,
    )
    .addHelpText(
      'after',
      `
Examples:
  rollouts up                            in this terminal; Ctrl-C stops everything
  rollouts up --detach                   in the background; rollouts down stops it
  TEMPORAL_ADDRESS=host:7233 rollouts up use a Temporal server that runs already

What ends by itself is started again. Logs are in ${context.settings.paths.logs}.`,
    )
    .action((options: UpOptions) => (options.detach ? upDetached(context) : up(context, options)));
}

/** Runs the stack in this process until a signal says to stop. A second signal does not wait for clean ends. */
async function up(context: Context, options: UpOptions): Promise<void> {
  const { settings, env, print } = context;
  const asked = new AbortController();
  let stack: Stack | null = null;
  const onSignal = (): void => {
    if (asked.signal.aborted) {
      void stack?.stop({ now: true }).finally(() => process.exit(130));
      return;
    }
    print('stopping; once more stops without waiting');
    asked.abort();
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
  const { temporalPort: temporal, uiPort: ui, denvPort: denv, imageDir: imageDirs } = options;
  const chosen = { temporal, ui, denv, imageDirs };
  stack = await startStack(settings, env, chosen, print, asked.signal);
  for (const line of stackLines(stack.state(), settings)) print(line);
  print('Ready. Try: rollouts run TASKSET. Ctrl-C stops everything.');
  await keepAlive(asked.signal);
  await stack.stop();
  print('stopped');
}

/** Children do not keep this process alive while one of them waits for its next start. */
async function keepAlive(until: AbortSignal): Promise<void> {
  const timer = setInterval(() => {}, 60_000);
  if (!until.aborted) await once(until, 'abort');
  clearInterval(timer);
}

/** Starts this same command in a session of its own, and waits until it is ready or has ended. */
async function upDetached(context: Context): Promise<void> {
  const { settings, env, print } = context;
  const running = readStackState(settings.paths.run);
  if (running?.ready) {
    print('The stack is running already.');
    for (const line of stackLines(running, settings)) print(line);
    return;
  }
  prepareHome(settings.paths);
  const logFile = join(settings.paths.logs, 'supervisor.log');
  const log = openSync(logFile, 'w', 0o600);
  const args = process.argv.slice(1).filter((arg) => arg !== '--detach');
  const child = spawn(process.execPath, [...process.execArgv, ...args], {
    env,
    detached: true,
    stdio: ['ignore', log, log],
  });
  closeSync(log);
  let ended = false;
  child.once('exit', () => (ended = true));
  // It is out of reach of this terminal until it is ready.
  process.once('SIGINT', () => child.kill('SIGTERM'));
  const state = await awaitReady(
    () => readStackState(settings.paths.run),
    () => ended,
    child.pid,
  );
  if (!state) throw new UserError(readFileSync(logFile, 'utf8').trim());
  child.unref();
  for (const line of stackLines(state, settings)) print(line);
  print('Ready, in the background. Try: rollouts run TASKSET. Stop it with: rollouts down');
}

async function awaitReady(
  read: () => StackState | null,
  hasEnded: () => boolean,
  pid: number | undefined,
): Promise<StackState | null> {
  while (!hasEnded()) {
    const state = read();
    if (state?.ready && state.supervisor.pid === pid) return state;
    await sleep(100);
  }
  return null;
}
