import type { ExecEnd } from '../../driver';
import type { Records } from '../records';
import { readProgress, wasKilled } from './files';
import type { ExecFiles } from './files';

/** How an exec ended, as its files and its sandbox's record tell; null while it runs. */
export function findEnd(files: ExecFiles, records: Records): ExecEnd | null {
  const progress = readProgress(files);
  switch (progress.kind) {
    case 'running':
      return null;
    case 'exited': {
      const { exitCode, atMs } = progress;
      const killed = endedByUs(files, records, atMs) || endedWithSandbox(files, records);
      return exitCode === 137 && killed ? { kind: 'killed' } : { kind: 'exited', exitCode };
    }
    case 'failed': {
      const { exitCode, atMs, ofProgram } = progress;
      const killed =
        endedByUs(files, records, atMs) || (!ofProgram && endedWithSandbox(files, records));
      return killed ? { kind: 'killed' } : { kind: 'exited', exitCode };
    }
    case 'lost':
    case 'never_started': {
      const killed = endedByUs(files, records, Date.now()) || endedWithSandbox(files, records);
      return killed ? { kind: 'killed' } : { kind: 'lost' };
    }
  }
}

function endedByUs(files: ExecFiles, records: Records, atMs: number): boolean {
  const stoppedAtMs = records.stoppedAtMs(files.sandboxId);
  return wasKilled(files) || (stoppedAtMs !== null && stoppedAtMs <= atMs);
}

/** The sandbox ended of itself, and with it what ran there. */
function endedWithSandbox({ sandboxId }: ExecFiles, records: Records): boolean {
  return records.stoppedAtMs(sandboxId) === null && !records.running(sandboxId);
}
