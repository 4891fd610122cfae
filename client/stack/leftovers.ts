import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import type { Settings } from '../settings';
import { endProcess, readPidFile, removePidFile } from './processes';
import { denvShutdownCommand } from './services';

const serviceNames = ['worker', 'temporal', 'denv'] as const;

/** Ends the services that a killed supervisor has left: nobody would start them again. Success when there are none. */
export async function endLeftovers(settings: Settings, say: (line: string) => void): Promise<void> {
  for (const name of serviceNames) {
    const file = join(settings.paths.run, `${name}.pid`);
    const left = readPidFile(file);
    if (!left) continue;
    say(`ending ${name}, left by an earlier stack`);
    await endProcess(left, 'SIGTERM', 15);
    removePidFile(file);
  }
}

/** Ends what the embedded denv server has running in sandboxes. Success when there is nothing. */
export async function shutDownSandboxes(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  say: (line: string) => void,
): Promise<void> {
  if (!existsSync(settings.paths.denvData)) return;
  say('ending sandboxes');
  const { command, args } = denvShutdownCommand(settings);
  const ended = await execa(command, args, { env, extendEnv: false, reject: false });
  if (ended.failed) say(`sandboxes could not be ended: ${ended.stderr || ended.shortMessage}`);
}
