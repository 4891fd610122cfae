import { writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { errnoOf } from '../../../../machine/errno';
import type { ExecEnd, ExecHandle } from '../../driver';
import { readIfThere } from '../../../../machine/files';
import type { Cgroups } from '../cgroups';
import type { Records } from '../records';
import { findEnd } from './end';
import { at, findHolderPid } from './files';
import type { ExecFiles } from './files';
import { createOutput } from './output';
import { createStdin } from './stdin';
import { watchDirectory } from './watch';

/** How long a start that hangs, in a sandbox out of pids perhaps, is waited for once it is to be killed. */
const startGraceMs = 3_000;

/** One exec that conmon holds, seen through its files and its cgroup. */
export class HeldExec implements ExecHandle {
  /** Functions that stop the open watches. */
  private readonly releases = new Set<() => void>();
  private readonly stdout: ReturnType<typeof createOutput>;
  private readonly stdin: ReturnType<typeof createStdin>;
  private ending: Promise<ExecEnd> | null = null;

  constructor(
    private readonly files: ExecFiles,
    private readonly host: { execId: string; cgroup: string; cgroups: Cgroups; records: Records },
  ) {
    this.stdout = createOutput(files);
    this.stdin = createStdin(files);
  }

  ended(): Promise<ExecEnd> {
    this.ending ??= this.waitForEnd();
    return this.ending;
  }

  async kill(): Promise<void> {
    const { cgroup, cgroups } = this.host;
    if (this.end() === null) writeFileSync(at(this.files, 'killed'), '', { mode: 0o600 });
    const graceEnd = Date.now() + startGraceMs;
    // A process on its way in is not in the cgroup yet, so killing goes on until the holder has seen its end.
    for (;;) {
      await cgroups.kill(cgroup);
      if (this.end() !== null) break;
      if (Date.now() > graceEnd) killHolder(this.files);
      await sleep(2);
    }
    await cgroups.kill(cgroup);
    await this.tidyCgroup();
  }

  output(maxBytes: number): Promise<{ stdout: Buffer; stderr: Buffer; truncated: boolean }> {
    return this.stdout.read(maxBytes);
  }

  outputBytes(): Promise<number> {
    return this.stdout.count();
  }

  follow(fromOffset: number, onData: (stdout: Buffer, nextOffset: number) => void): () => void {
    return this.releasable(this.stdout.follow(fromOffset, onData));
  }

  write(data: Buffer): Promise<void> {
    return this.stdin.write(data);
  }

  release(): void {
    for (const stop of this.releases) stop();
    this.releases.clear();
    this.stdin.release();
  }

  async remove(): Promise<void> {
    await this.tidyCgroup();
    await rm(this.files.dir, { recursive: true, force: true });
  }

  private end(): ExecEnd | null {
    return findEnd(this.files, this.host.records);
  }

  private async waitForEnd(): Promise<ExecEnd> {
    const end = this.look() ?? (await this.watchForEnd());
    if (end.kind === 'lost') await this.host.cgroups.kill(this.host.cgroup);
    void this.tidyCgroup().catch(() => undefined); // Nobody waits for it; `remove` tries again.
    return end;
  }

  private async watchForEnd(): Promise<ExecEnd> {
    const { promise, resolve } = Promise.withResolvers<ExecEnd>();
    const look = () => {
      const end = this.look();
      if (end !== null) resolve(end);
    };
    const stop = this.releasable(watchDirectory(this.files.dir, look));
    return promise.finally(stop);
  }

  /** The end, if it is known. A look that fails, with no descriptor left perhaps, tells nothing; the next one may. */
  private look(): ExecEnd | null {
    try {
      return this.end();
    } catch {
      return null;
    }
  }

  /** A cgroup with a background child in it stays, for a later kill. */
  private async tidyCgroup(): Promise<void> {
    const { execId, cgroup, cgroups, records } = this.host;
    if (!cgroups.exists(cgroup)) return;
    records.keepOomKills(this.files.sandboxId, execId, cgroups.oomKills(cgroup));
    if (!cgroups.isPopulated(cgroup)) await cgroups.remove(cgroup);
  }

  /** Lets `release` stop a watch that is not stopped before. */
  private releasable(stop: () => void): () => void {
    this.releases.add(stop);
    return () => {
      this.releases.delete(stop);
      stop();
    };
  }
}

/** Kills conmon and what it is starting. */
function killHolder(files: ExecFiles): void {
  const holder = findHolderPid(files);
  if (holder === null) return;
  const children = readIfThere(`/proc/${holder}/task/${holder}/children`) ?? '';
  const starting = children.trim().split(' ').filter(Boolean).map(Number);
  for (const pid of [...starting, holder]) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch (error) {
      if (errnoOf(error) !== 'ESRCH') throw error; // It ended by itself meanwhile.
    }
  }
}
