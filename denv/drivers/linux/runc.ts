import { spawn } from 'node:child_process';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { DenvError } from '../../errors';
import type { Layout } from '../host/layout';
import { readIfThere } from '../../../machine/files';

/** Options of every runc call: its state is in the runtime directory, its errors go to a file as JSON lines. */
export const runcArgs = (layout: Layout, log: string): string[] => [
  '--root',
  layout.runcRoot,
  '--log',
  log,
  '--log-format',
  'json',
];

/** The last error that runc wrote to its log. */
export function runcError(log: string): string | null {
  const lines = (readIfThere(log) ?? '').split('\n').filter((line) => line !== '');
  for (const line of lines.reverse()) {
    const entry = JSON.parse(line) as { level?: string; msg?: string };
    if (entry.level === 'error' || entry.level === 'fatal') return entry.msg ?? null;
  }
  return null;
}

/**
 * Creates and starts a container whose first process has /dev/null as its standard streams: with pipes it would die with
 * the server.
 * @throws DenvError internal, with runc's own words
 */
export async function startDetached(
  layout: Layout,
  container: { id: string; bundle: string },
): Promise<number> {
  const log = path.join(container.bundle, 'runc.log');
  const pidFile = path.join(container.bundle, 'init.pid');
  const args = ['run', '--detach', '--bundle', container.bundle, '--pid-file', pidFile];
  const code = await new Promise<number | null>((resolve, reject) => {
    const child = spawn('runc', [...runcArgs(layout, log), ...args, container.id], {
      stdio: 'ignore',
    });
    child.on('error', reject);
    child.on('exit', resolve);
  });
  const pid = Number(readIfThere(pidFile));
  if (code === 0 && pid > 0) return pid;
  throw new DenvError('internal', `runc could not start ${container.id}: ${runcError(log)}`);
}

/** Removes runc's state of a container whose processes are gone. Only its cgroups are left then. */
export async function forgetContainer(layout: Layout, id: string): Promise<void> {
  await rm(path.join(layout.runcRoot, id), { recursive: true, force: true });
}
