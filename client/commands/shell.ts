import type { Command } from 'commander';
import { connect, denvPlace } from '../api/connect';
import type { Context } from '../context';
import { UserError } from '../errors';
import { wholeNumberFrom } from './args';
import { runInFork, versionFor } from '../shell/shell';
import { ownTerminal } from '../shell/terminal';

interface ShellOptions {
  at?: number;
}

export function addShell(program: Command, context: Context): void {
  program
    .command('shell')
    .description('open a terminal in a throw-away fork of a rollout\u2019s files')
    .argument('<rollout>', 'id of the rollout')
    .argument('[command...]', 'run this in place of a shell; after a --')
    .option('--at <step>', 'as they were before this step', wholeNumberFrom(1, 10_000))
    .addHelpText(
      'after',
      `
Examples:
  rollouts shell rollout/nightly/restart-web/0
  rollouts shell rollout/nightly/restart-web/0 --at 3
  rollouts shell rollout/nightly/restart-web/0 --at 3 -- cat /workspace/cause.txt
  echo 'ls -l /workspace' | rollouts shell rollout/nightly/restart-web/0

Without --at it is what was judged, or the newest checkpoint of a rollout that runs. What is done in it changes nothing else, and
is gone when it ends. Where stdin or stdout is no terminal, they are plain streams.

Exit codes: that of the command, 2 bad usage, 1 when it was killed or nothing could be opened.`,
    )
    .action((rolloutId: string, argv: string[], options: ShellOptions) =>
      shell(context, rolloutId, argv, options),
    );
}

async function shell(
  context: Context,
  rolloutId: string,
  argv: string[],
  options: ShellOptions,
): Promise<void> {
  const stopping = new AbortController();
  const stop = (): void => stopping.abort();
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, stop);
  const rollouts = await connect(context.settings);
  try {
    const request = {
      rolloutId,
      step: options.at,
      argv: argv.length === 0 ? undefined : argv,
      stop: stopping.signal,
    };
    const version = await versionFor(rollouts, request);
    const terminal = ownTerminal();
    if (terminal.tty) context.note(`a fork of ${version}; it is gone when you leave`);
    const { exitCode } = await runInFork(rollouts, denvPlace(context.settings), terminal, {
      ...request,
      version,
    });
    context.exitWith(exitCode ?? 1);
  } catch (error) {
    if (Reflect.get(Object(error), 'code') !== 'version_not_found') throw error;
    throw new UserError(`the version of ${rolloutId} that was asked for has expired`);
  } finally {
    await rollouts.close();
    for (const signal of signals) process.off(signal, stop);
  }
}
