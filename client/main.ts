import { Command, CommanderError } from 'commander';
import { addDoctor } from './commands/doctor';
import { addDown } from './commands/down';
import { addExplore } from './commands/explore';
import { addList } from './commands/list';
import { addRun } from './commands/run';
import { addScripted } from './commands/scripted';
import { addShow } from './commands/show';
import { addStatus } from './commands/status';
import { addSteering } from './commands/steer';
import { addUp } from './commands/up';
import { addWatch } from './commands/watch';
import type { Context } from './context';
import { reasonOf, UserError } from './errors';
import { settingsFrom } from './settings';

const context: Context = {
  settings: settingsFrom(process.env),
  env: process.env,
  print: (line) => console.log(line),
  note: (line) => console.error(line),
};

const program = new Command('rollouts')
  .description('Durable agent rollouts on Temporal, over forkable sandboxes.')
  .showHelpAfterError('(see --help)')
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
const commands = [
  addUp,
  addDown,
  addStatus,
  addRun,
  addWatch,
  addList,
  addShow,
  addSteering,
  addExplore,
  addDoctor,
  addScripted,
];
for (const add of commands) add(program, context);
for (const command of program.commands) command.exitOverride();

program.parseAsync().catch((error: unknown) => {
  if (error instanceof CommanderError) {
    process.exitCode = error.exitCode === 0 ? 0 : 2;
  } else if (error instanceof UserError) {
    console.error(error.message);
    process.exitCode = error.exitCode;
  } else {
    console.error(
      process.env['ROLLOUTS_DEBUG'] && error instanceof Error ? error.stack : reasonOf(error),
    );
    process.exitCode = 1;
  }
});
