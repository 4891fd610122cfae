import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { findProgram } from '../../../machine/programs';
import { DenvError } from '../../errors';

const outputLimitBytes = 64 * 2 ** 20;

/** Runs a host command to its end. @returns its stdout @throws Error with its stderr when it does not exit 0 */
export async function runCommand(command: string, args: string[]): Promise<string> {
  return (await promisify(execFile)(command, args, { maxBuffer: outputLimitBytes })).stdout;
}

/** The Python that came with the system: one on PATH may live in a home directory and vanish. */
export function findPython(): string {
  const found = findProgram('python3', `/usr/bin:${process.env.PATH ?? ''}`);
  if (found) return found;
  throw new DenvError(
    'capability_missing',
    'the host helper needs python3; on Debian: apt-get install python3-minimal',
  );
}
