import { closeSync, openSync, readSync, renameSync, statSync } from 'node:fs';

const rotateBytes = 20 * 2 ** 20;
const tailBytes = 65_536;

/**
 * Opens a log to append to. A log that has grown large is put aside first, in place of the one that was put aside before.
 * @returns the descriptor, for a process to write to, and where its output will begin
 */
export function openLog(path: string): { fd: number; offset: number } {
  const size = sizeOf(path);
  if (size > rotateBytes) renameSync(path, `${path}.1`);
  return { fd: openSync(path, 'a', 0o600), offset: size > rotateBytes ? 0 : size };
}

/** Reads what was written past `offset`, the last 64 KiB of it at most. */
export function readLog(path: string, offset: number): string {
  const size = sizeOf(path);
  const from = Math.max(offset, size - tailBytes);
  if (size <= from) return '';
  const file = openSync(path, 'r');
  try {
    const buffer = Buffer.alloc(size - from);
    return buffer.subarray(0, readSync(file, buffer, 0, buffer.length, from)).toString();
  } finally {
    closeSync(file);
  }
}

/**
 * Options of execa for a process that outlives this one. The descriptor goes to the process itself: piped through this one, its
 * output would end with this one.
 */
export function detachedInto(log: number) {
  const fd = log as 3; // execa takes any descriptor, and its types name those from 3 to 9
  return { detached: true, stdin: 'ignore', stdout: fd, stderr: fd } as const;
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
