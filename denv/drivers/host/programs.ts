import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { DenvError } from '../../errors';

const outputLimitBytes = 64 * 2 ** 20;

/** Runs a host command to its end. @returns its stdout @throws Error with its stderr when it does not exit 0 */
export async function runCommand(command: string, args: string[]): Promise<string> {
  return (await promisify(execFile)(command, args, { maxBuffer: outputLimitBytes })).stdout;
}

/** Absolute path of a program in one of `places` or on PATH; null when there is none. */
export function findProgram(name: string, places: string[] = []): string | null {
  for (const dir of [...places, ...(process.env.PATH ?? '').split(':')]) {
    const file = path.join(dir, name);
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch {
      continue;
    }
  }
  return null;
}

/** The Python that came with the system: one on PATH may live in a home directory and vanish. */
export function findPython(): string {
  const found = findProgram('python3', ['/usr/bin']);
  if (found) return found;
  throw new DenvError(
    'capability_missing',
    'the host helper needs python3; on Debian: apt-get install python3-minimal',
  );
}
