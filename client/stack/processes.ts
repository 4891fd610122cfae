import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { errnoOf } from '../../machine/errno';
import { readStartTime } from '../../machine/processes';

/** A process that a later one can find again: a pid alone may have gone to somebody else since. */
export interface ProcessId {
  pid: number;
  /** Clock ticks since boot, or whatever ps says; null for a process that has ended. */
  startTime: string | null;
}

export function processIdOf(pid: number): ProcessId {
  return { pid, startTime: readStartTime(pid) };
}

/** The process is there and is the one that was meant. A zombie has ended. */
export function isAlive(process: ProcessId): boolean {
  const now = readStartTime(process.pid);
  return now !== null && now === process.startTime;
}

/** Signals a process and waits for its end; past `graceS` it is killed. Success when it is gone, also when it was before. */
export async function endProcess(
  target: ProcessId,
  signal: NodeJS.Signals,
  graceS: number,
): Promise<void> {
  const until = Date.now() + graceS * 1000;
  send(target, signal);
  while (isAlive(target)) {
    if (Date.now() > until) send(target, 'SIGKILL');
    await sleep(50);
  }
}

export function send(target: ProcessId, signal: NodeJS.Signals): void {
  if (!isAlive(target)) return;
  try {
    process.kill(target.pid, signal);
  } catch (error) {
    if (errnoOf(error) !== 'ESRCH') throw error;
  }
}

export function writePidFile(path: string, target: ProcessId): void {
  writeFileSync(path, `${JSON.stringify(target)}\n`, { mode: 0o600 });
}

/** Null when there is none, or none that can be read. */
export function readPidFile(path: string): ProcessId | null {
  try {
    const value: unknown = JSON.parse(readFileSync(path, 'utf8'));
    const pid: unknown = Reflect.get(Object(value), 'pid');
    const startTime: unknown = Reflect.get(Object(value), 'startTime');
    if (typeof pid !== 'number' || typeof startTime !== 'string') return null;
    return { pid, startTime };
  } catch {
    return null;
  }
}

export function removePidFile(path: string): void {
  rmSync(path, { force: true });
}
