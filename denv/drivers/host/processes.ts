import { spawn } from 'node:child_process';
import { accessSync, constants, readFileSync } from 'node:fs';
import path from 'node:path';

/** A process for good: its pid may be used again, its start time with that pid and boot may not. */
export interface ProcessIdentity {
  pid: number;
  start: string;
  bootId: string;
}

export const bootId = (): string => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

/** Field 22 of /proc/PID/stat, clock ticks since boot; null when the process is gone or a zombie. */
export function startTimeOf(pid: number): string | null {
  const stat = readOrNull(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The command name may hold spaces and brackets, so count from the last bracket.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (fields[0] === 'Z' || fields[0] === 'X') return null;
  return fields[19] ?? null;
}

export function identify(pid: number): ProcessIdentity | null {
  const start = startTimeOf(pid);
  return start === null ? null : { pid, start, bootId: bootId() };
}

export function isAlive(process: ProcessIdentity): boolean {
  return process.bootId === bootId() && startTimeOf(process.pid) === process.start;
}

/** The arguments of a process; empty when it is gone. */
export function argumentsOf(pid: number): string[] {
  return (readOrNull(`/proc/${pid}/cmdline`) ?? '').split('\0').filter((word) => word !== '');
}

export function readOrNull(file: string): string | null {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return null;
  }
}

/**
 * Runs a host command to its end.
 * @returns its stdout @throws Error with the command's stderr when it does not exit 0
 */
export function run(command: string, args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    child.on('error', (error) => reject(new Error(`cannot run ${command}: ${error.message}`)));
    child.on('close', (code) => {
      if (code === 0) return resolve(stdout);
      reject(new Error(`${command} ${args.join(' ')} exited with ${code}: ${stderr.trim()}`));
    });
  });
}

export const sleep = (ms: number): Promise<void> =>
  new Promise((resolve) => setTimeout(resolve, ms));

/** Absolute path of a program on PATH, or of one in `places` before; null when there is none. */
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
