import type { Command } from 'commander';
import type { Context } from '../context';
import { UserError } from '../errors';
import { takeLock } from '../stack/lock';
import { endProcess, readPidFile, removePidFile } from '../stack/processes';
import { prepareHome } from '../../rollouts/home';
import { removeStackState } from '../stack/state';
import { endLeftovers, shutDownSandboxes } from '../stack/leftovers';
import { supervisorPidFile } from '../stack/supervisor';

export function addDown(program: Command, context: Context): void {
  program
    .command('down')
    .description('stop the stack; nothing of it is left running, and what is recorded stays')
    .addHelpText(
      'after',
      '\nExample:\n  rollouts down\n\nSandboxes that ran are stopped, and rollouts that ran resume at the next: rollouts up',
    )
    .action(() => down(context));
}

/** Stops the stack, or cleans up after one whose supervisor was killed. Success when nothing runs. */
async function down(context: Context): Promise<void> {
  const { settings, env, print } = context;
  prepareHome(settings.paths);
  const supervisor = supervisorPidFile(settings);
  const running = readPidFile(supervisor);
  if (running) {
    print('stopping the stack');
    // Longer than its services may take to end. What it leaves is ended below.
    await endProcess(running, 'SIGTERM', 90);
    removePidFile(supervisor);
  }
  const lock = takeLock(settings.paths.run);
  if (!lock) {
    throw new UserError(
      `another process is starting the stack of ${settings.paths.home}; run rollouts down again when it has`,
    );
  }
  try {
    await endLeftovers(settings, print);
    if (!settings.denvServer) await shutDownSandboxes(settings, env, running ? () => {} : print);
    removeStackState(settings.paths.run);
  } finally {
    lock.release();
  }
  print('down');
}
