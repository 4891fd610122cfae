import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import { UserError } from '../errors';
import { prepareHome } from '../../rollouts/home';
import type { Settings } from '../settings';
import { detachedInto } from './log-file';
import { readStackState } from './state';
import type { StackState } from './state';

/**
 * Runs `args` of this same program in a session of its own and returns when the stack that it starts is ready. Until then a
 * Ctrl-C stops the start.
 * @throws UserError with what it has written, when it ended before that
 */
export async function startInBackground(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  args: string[],
): Promise<StackState> {
  prepareHome(settings.paths);
  const logFile = join(settings.paths.logs, 'supervisor.log');
  const log = openSync(logFile, 'w', 0o600);
  const supervisor = execa(process.execPath, [...process.execArgv, ...args], {
    ...detachedInto(log),
    env,
    extendEnv: false,
    // Its clean-up takes as long as its services have to end.
    forceKillAfterDelay: false,
    reject: false,
  });
  closeSync(log);
  let ended = false;
  void supervisor.finally(() => (ended = true));
  const stop = (): void => void supervisor.kill('SIGTERM');
  process.on('SIGINT', stop);
  try {
    while (!ended) {
      const state = readStackState(settings.paths.run);
      if (state?.ready && state.supervisor.pid === supervisor.pid) return state;
      await sleep(100);
    }
  } finally {
    process.off('SIGINT', stop);
    supervisor.nodeChildProcess.unref();
  }
  throw new UserError(readFileSync(logFile, 'utf8').trim());
}
