import { Command, CommanderError } from 'commander';
import { addCheckpoints } from './commands/checkpoints';
import { addDiff } from './commands/diff';
import { addDoctor } from './commands/doctor';
import { addDown } from './commands/down';
import { addExplore } from './commands/explore';
import { addExport } from './commands/export';
import { addFork } from './commands/fork';
import { addList } from './commands/list';
import { addRegrade } from './commands/regrade';
import { addRun } from './commands/run';
import { addScripted } from './commands/scripted';
import { addShell } from './commands/shell';
import { addShow } from './commands/show';
import { addStatus } from './commands/status';
import { addSteering } from './commands/steer';
import { addTargets } from './commands/targets';
import { addTree } from './commands/tree';
import { addUp } from './commands/up';
import { addWatch } from './commands/watch';
import type { Context } from './context';
import { reasonOf, toUserError } from './errors';

const commands = [
  addUp,
  addDown,
  addStatus,
  addTargets,
  addRun,
  addWatch,
  addList,
  addShow,
  addSteering,
  addExplore,
  addFork,
  addTree,
  addDiff,
  addShell,
  addExport,
  addRegrade,
  addCheckpoints,
  addDoctor,
  addScripted,
];

/** Runs one command line, without the program's own name, and tells its exit code by `context.exitWith`. */
export async function runCommandLine(args: string[], context: Context): Promise<void> {
  try {
    await programOf(context).parseAsync(args, { from: 'user' });
  } catch (error) {
    context.exitWith(exitCodeOf(error));
    if (error instanceof CommanderError) return; // It has said everything itself.
    const stack = context.env['ROLLOUTS_DEBUG'] && error instanceof Error ? error.stack : undefined;
    context.note(toUserError(error)?.message ?? stack ?? reasonOf(error));
  }
}

function programOf(context: Context): Command {
  const program = new Command('rollouts')
    .description('Durable agent rollouts on Temporal, over forkable sandboxes.')
    .configureOutput({
      writeOut: (text) => context.print(text.trimEnd()),
      writeErr: (text) => context.note(text.trimEnd()),
    })
    .showHelpAfterError('See --help.')
    .exitOverride()
    .addHelpText(
      'after',
      `
A first run:
  rollouts up --detach
  rollouts run tasks.yaml --agent oracle
  rollouts down

Everything is kept in ${context.settings.paths.home} (ROLLOUTS_HOME).`,
    );
  // Settings of the program are handed on to commands as they are added.
  for (const add of commands) add(program, context);
  return program;
}

function exitCodeOf(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  return toUserError(error)?.exitCode ?? 1;
}
