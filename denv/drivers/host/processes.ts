import { readFileSync } from 'node:fs';
import { readIfThere } from './files';

/** A process for good: its pid may be used again, its start time with that pid and boot may not. */
export interface ProcessIdentity {
  pid: number;
  start: string;
  bootId: string;
}

export const readBootId = (): string =>
  readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

/** Field 22 of /proc/PID/stat, clock ticks since boot; null when the process is gone or a zombie. */
export function readStartTime(pid: number): string | null {
  const stat = readIfThere(`/proc/${pid}/stat`);
  if (stat === null) return null;
  // The command name may hold spaces and brackets, so count from the last bracket.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (fields[0] === 'Z' || fields[0] === 'X') return null;
  return fields[19] ?? null;
}

export function identify(pid: number): ProcessIdentity | null {
  const start = readStartTime(pid);
  return start === null ? null : { pid, start, bootId: readBootId() };
}

/** @throws Error when /proc cannot be read: then nobody knows */
export function isAlive(process: ProcessIdentity): boolean {
  return process.bootId === readBootId() && readStartTime(process.pid) === process.start;
}

/** The arguments of a process; empty when it is gone. */
export function readArguments(pid: number): string[] {
  return (readIfThere(`/proc/${pid}/cmdline`) ?? '').split('\0').filter((word) => word !== '');
}
