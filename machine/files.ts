import { readdirSync, readFileSync, statSync } from 'node:fs';
import { errnoOf } from './errno';

/** What /proc and cgroupfs answer for a process or a cgroup that ended after its file was opened. */
const endedMeanwhile = ['ESRCH', 'ENODEV'];
const notThere = ['ENOENT', 'ENOTDIR', ...endedMeanwhile];

/**
 * Whether an error says that a file, or the process or cgroup it belongs to, does not exist. Any other error, such as EMFILE or
 * EIO, says nothing about it: whoever takes it for absence calls a live process dead.
 */
export const isAbsence = (error: unknown): boolean => notThere.includes(errnoOf(error) ?? '');

/** The text of a file; null when there is none. @throws Error when it could not be read */
export function readIfThere(file: string): string | null {
  return unlessAbsent(() => readFileSync(file, 'utf8'), null);
}

/** @throws Error when that could not be found out */
export function isThere(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false }) !== undefined;
}

/** Names of the directories in a directory; none when there is no such directory. */
export function listDirectories(dir: string): string[] {
  const entries = unlessAbsent(() => readdirSync(dir, { withFileTypes: true }), []);
  return entries.filter((entry) => entry.isDirectory()).map((entry) => entry.name);
}

function unlessAbsent<T>(read: () => T, absent: T): T {
  try {
    return read();
  } catch (error) {
    if (isAbsence(error)) return absent;
    throw error;
  }
}
