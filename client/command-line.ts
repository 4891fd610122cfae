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

/** Runs one command line, given without the program's own name, and passes its exit code to `context.exitWith`. */
export async function runCommandLine(args: string[], context: Context): Promise<void> {
  try {
    await createProgram(context).parseAsync(args, { from: 'user' });
  } catch (error) {
    context.exitWith(toExitCode(error));
    if (error instanceof CommanderError) return; // It has printed what is wrong itself.
    const stack = context.env['ROLLOUTS_DEBUG'] && error instanceof Error ? error.stack : undefined;
    context.note(toUserError(error)?.message ?? stack ?? reasonOf(error));
  }
}

function createProgram(context: Context): Command {
  const program = new Command('rollouts')
    .description('Runs durable agent rollouts on Temporal, in sandboxes that can be forked.')
    .configureOutput({
      writeOut: (text) => context.print(text.trimEnd()),
      writeErr: (text) => context.note(text.trimEnd()),
    })
    .showHelpAfterError('Run it with --help for what it takes.')
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
  // Commands take over the program's settings when they are added, so these come first.
  for (const add of commands) add(program, context);
  return program;
}

function toExitCode(error: unknown): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
  return toUserError(error)?.exitCode ?? 1;
}
