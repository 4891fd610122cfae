import { readFileSync } from 'node:fs';
import { readIfThere } from '../../../machine/files';
import { readStartTime } from '../../../machine/processes';

/** A process for good: its pid may be used again, its start time with that pid and boot may not. */
export interface ProcessIdentity {
  pid: number;
  start: string;
  bootId: string;
}

export const readBootId = (): string =>
  readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

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
