import { join } from 'node:path';
import type { Command } from 'commander';
import type { Context } from '../context';
import { takeLock } from '../stack/lock';
import { endProcess, readPidFile, removePidFile } from '../stack/processes';
import { prepareHome } from '../settings';
import { removeStackState } from '../stack/state';
import { endLeftovers, shutDownSandboxes } from '../stack/supervisor';

export function addDown(program: Command, context: Context): void {
  program
    .command('down')
    .description('stop the stack; nothing of it is left running, and everything recorded stays')
    .addHelpText(
      'after',
      '\nExample:\n  rollouts down\n\nSandboxes that were running become stopped; rollouts go on at the next: rollouts up',
    )
    .action(() => down(context));
}

/** Also clears up after a supervisor that was killed. Stopping what does not run is success. */
async function down(context: Context): Promise<void> {
  const { settings, env, print } = context;
  prepareHome(settings.paths);
  const supervisor = join(settings.paths.run, 'supervisor.pid');
  const running = readPidFile(supervisor);
  if (running) {
    print('stopping the stack');
    // Past all grace of its services; then what it leaves is ended below.
    await endProcess(running, 'SIGTERM', 90);
    removePidFile(supervisor);
  }
  const lock = takeLock(settings.paths.run);
  if (!lock) throw new Error('another process starts the stack right now; try again');
  try {
    await endLeftovers(settings, print);
    if (!settings.denvServer) await shutDownSandboxes(settings, env, running ? () => {} : print);
    removeStackState(settings.paths.run);
  } finally {
    lock.release();
  }
  print('down');
}
