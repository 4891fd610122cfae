import type { Command } from 'commander';
import { connect, denvPlace } from '../api/connect';
import type { Context } from '../context';
import { UserError } from '../errors';
import { wholeNumberFrom } from './args';
import { runInFork, readShellVersion } from '../shell/shell';
import { ownTerminal } from '../shell/terminal';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = {
  at: {
    takes: '<step>',
    help: 'open the files as they were before this step',
    parse: wholeNumberFrom(1, 10_000),
  },
} satisfies OptionTable;

type ShellOptions = OptionValues<typeof options>;

export function addShell(program: Command, context: Context): void {
  const command = program
    .command('shell')
    .description('open a terminal in a throw-away fork of a rollout\u2019s files')
    .argument('<rollout>', 'id of the rollout')
    .argument('[command...]', 'what to run in place of a shell; write it after --');
  addOptions(command, options)
    .addHelpText(
      'after',
      `
Examples:
  rollouts shell rollout/nightly/restart-web/0
  rollouts shell rollout/nightly/restart-web/0 --at 3
  rollouts shell rollout/nightly/restart-web/0 --at 3 -- cat /workspace/cause.txt
  echo 'ls -l /workspace' | rollouts shell rollout/nightly/restart-web/0

Without --at the files are those that the verifier saw, or those of the newest checkpoint while the rollout runs. What you
change is in the fork alone, and is gone when you leave. Where stdin or stdout is no terminal, both are plain streams.

Exit codes: that of the command; 1 when it was killed or nothing could be opened, 2 bad usage.`,
    )
    .action((rolloutId: string, argv: string[], given: ShellOptions) =>
      shell(context, rolloutId, argv, given),
    );
}

async function shell(
  context: Context,
  rolloutId: string,
  argv: string[],
  { at }: ShellOptions,
): Promise<void> {
  const stopping = new AbortController();
  const stop = (): void => stopping.abort();
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, stop);
  const rollouts = await connect(context.settings);
  try {
    const request = {
      rolloutId,
      step: at,
      argv: argv.length === 0 ? undefined : argv,
      stop: stopping.signal,
    };
    const version = await readShellVersion(rollouts, request);
    const terminal = ownTerminal();
    if (terminal.tty) context.note(`this is a fork of ${version}; it is deleted when you leave`);
    const { exitCode } = await runInFork(rollouts, denvPlace(context.settings), terminal, {
      ...request,
      version,
    });
    context.exitWith(exitCode ?? 1);
  } catch (error) {
    if (Reflect.get(Object(error), 'code') !== 'version_not_found') throw error;
    throw new UserError(
      `the version of ${rolloutId} that was asked for has expired; see what is left with: rollouts checkpoints ${rolloutId}`,
    );
  } finally {
    await rollouts.close();
    for (const signal of signals) process.off(signal, stop);
  }
}
