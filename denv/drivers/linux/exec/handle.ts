import { watch, writeFileSync } from 'node:fs';
import type { FSWatcher } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { ExecEnd, ExecHandle } from '../../driver';
import type { Cgroups } from '../cgroups';
import { at, holderPid, progressOf, wasKilled } from './files';
import type { ExecFiles } from './files';
import { createOutput } from './output';
import { createStdin } from './stdin';
import { readOrNull, sleep } from '../../host/processes';
import type { Records } from '../records';

/** A safety net under the file watch, and what notices a holder that was killed. */
const pollMs = 500;
/** How long a start that hangs, in a sandbox out of pids perhaps, is waited for once it is to be killed. */
const startGraceMs = 3_000;

export function openExecHandle(
  files: ExecFiles,
  host: { execId: string; cgroup: string; cgroups: Cgroups; records: Records },
): ExecHandle {
  const { cgroup, cgroups, records } = host;
  const releases = new Set<() => void>();
  const output = createOutput(files);
  const stdin = createStdin(files);
  let ending: Promise<ExecEnd> | null = null;

  function endOf(): ExecEnd | null {
    const progress = progressOf(files);
    switch (progress.kind) {
      case 'running':
        return null;
      case 'exited':
        return progress.exitCode === 137 && (endedByUs(progress.atMs) || endedWithSandbox())
          ? { kind: 'killed' }
          : { kind: 'exited', exitCode: progress.exitCode };
      case 'failed':
        return endedByUs(progress.atMs) || (!progress.ofProgram && endedWithSandbox())
          ? { kind: 'killed' }
          : { kind: 'exited', exitCode: progress.exitCode };
      case 'lost':
      case 'never_started':
        return endedByUs(Date.now()) || endedWithSandbox() ? { kind: 'killed' } : { kind: 'lost' };
    }
  }

  function endedByUs(atMs: number): boolean {
    const stoppedAtMs = records.stoppedAtMs(files.sandboxId);
    return wasKilled(files) || (stoppedAtMs !== null && stoppedAtMs <= atMs);
  }

  /** The sandbox ended of itself, and with it what ran there. */
  function endedWithSandbox(): boolean {
    return records.stoppedAtMs(files.sandboxId) === null && !records.running(files.sandboxId);
  }

  async function watchEnd(): Promise<ExecEnd> {
    let end = endOf();
    if (end === null) {
      end = await new Promise<ExecEnd>((resolve) => {
        const look = () => {
          const found = endOf();
          if (found === null) return;
          stop();
          resolve(found);
        };
        const watcher: FSWatcher = watch(files.dir, look);
        watcher.on('error', () => undefined); // The poll goes on.
        const poll = setInterval(look, pollMs);
        const stop = () => {
          watcher.close();
          clearInterval(poll);
          releases.delete(stop);
        };
        releases.add(stop);
        look();
      });
    }
    if (end.kind === 'lost') await cgroups.kill(cgroup);
    void tidyCgroup().catch(() => undefined); // Nobody waits for it; `remove` tries again.
    return end;
  }

  /** A cgroup with a background child in it stays, for a later kill. */
  async function tidyCgroup(): Promise<void> {
    if (!cgroups.exists(cgroup)) return;
    records.keepOomKills(files.sandboxId, host.execId, cgroups.oomKills(cgroup));
    if (!cgroups.isPopulated(cgroup)) await cgroups.remove(cgroup);
  }

  function ended(): Promise<ExecEnd> {
    ending ??= watchEnd();
    return ending;
  }

  async function kill(): Promise<void> {
    if (endOf() === null) writeFileSync(at(files, 'killed'), '', { mode: 0o600 });
    const graceEnd = Date.now() + startGraceMs;
    // A process on its way in is not in the cgroup yet, so killing goes on until the holder has seen its end.
    for (;;) {
      await cgroups.kill(cgroup);
      if (endOf() !== null) break;
      if (Date.now() > graceEnd) killHolder();
      await sleep(2);
    }
    await cgroups.kill(cgroup);
    await tidyCgroup();
  }

  function killHolder(): void {
    const holder = holderPid(files);
    if (holder === null) return;
    const children = readOrNull(`/proc/${holder}/task/${holder}/children`) ?? '';
    const starting = children.trim().split(' ').filter(Boolean).map(Number);
    for (const pid of [...starting, holder]) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {
        // It ended by itself meanwhile.
      }
    }
  }

  return {
    ended,
    kill,
    output: (maxBytes) => output.read(maxBytes),
    outputBytes: () => output.count(),
    follow(fromOffset, onData) {
      const stop = output.follow(fromOffset, onData);
      releases.add(stop);
      return () => {
        releases.delete(stop);
        stop();
      };
    },
    write: (data) => stdin.write(data),
    release() {
      for (const stop of releases) stop();
      releases.clear();
      stdin.release();
    },
    async remove() {
      await tidyCgroup();
      await rm(files.dir, { recursive: true, force: true });
    },
  };
}
