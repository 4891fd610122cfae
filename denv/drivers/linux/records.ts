import { mkdirSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ImageSource } from '../driver';
import type { Layout } from '../host/layout';
import { isThere, readIfThere } from '../../../machine/files';
import { isAlive } from '../host/processes';
import type { ProcessIdentity } from '../host/processes';

/** What a new process must know of a sandbox beyond its tree and cgroup. */
export interface SandboxRecord {
  image: ImageSource;
  /** Null until its first process runs. */
  init: ProcessIdentity | null;
  /** Published ports: sandbox port → host port. */
  ports: Record<string, number>;
}

/** The files that stand for a sandbox beside its tree, under `records/<sandboxId>/`. */
export function createRecords(layout: Layout) {
  const dirOf = (id: string) => path.join(layout.records, id);
  const file = (id: string, name: string) => path.join(dirOf(id), name);

  function write(id: string, record: SandboxRecord): void {
    const half = file(id, 'record.json.tmp');
    writeFileSync(half, JSON.stringify(record), { mode: 0o600 });
    renameSync(half, file(id, 'record.json'));
  }

  function read(id: string): SandboxRecord | null {
    const text = readIfThere(file(id, 'record.json'));
    return text === null ? null : (JSON.parse(text) as SandboxRecord);
  }

  return {
    dirOf,
    execDirOf: (id: string, execId: string) => path.join(dirOf(id), 'execs', execId),
    make(id: string) {
      mkdirSync(file(id, 'execs'), { recursive: true, mode: 0o700 });
      mkdirSync(file(id, 'oom'), { recursive: true, mode: 0o700 });
    },
    write,
    read,
    list: (): string[] => (isThere(layout.records) ? readdirSync(layout.records) : []),
    /** The record, if the sandbox's first process lives. */
    running(id: string): (SandboxRecord & { init: ProcessIdentity }) | null {
      const record = read(id);
      return record?.init && isAlive(record.init) ? { ...record, init: record.init } : null;
    },
    /** Says that what ends from now on was ended by us. */
    markStopped: (id: string) => {
      if (isThere(dirOf(id))) writeFileSync(file(id, 'stopped'), '');
    },
    unmarkStopped: (id: string) => rmSync(file(id, 'stopped'), { force: true }),
    stoppedAtMs: (id: string): number | null =>
      statSync(file(id, 'stopped'), { throwIfNoEntry: false })?.mtimeMs ?? null,
    /** Keeps the count of an exec's cgroup, which is about to go. */
    keepOomKills(id: string, cgroup: string, kills: number): void {
      if (kills > 0 && isThere(dirOf(id))) writeFileSync(file(id, `oom/${cgroup}`), `${kills}`);
    },
    /** Keeps one count for all, as the sandbox's own cgroup is about to go. */
    keepAllOomKills(id: string, kills: number): void {
      const dir = file(id, 'oom');
      if (!isThere(dir)) return;
      const parts = readdirSync(dir);
      writeFileSync(path.join(dir, 'sandbox'), `${kills}`);
      for (const part of parts) if (part !== 'sandbox') rmSync(path.join(dir, part));
    },
    /** Sum of the kept counts of cgroups that are gone. */
    keptOomKills(id: string, stillThere: string[]): number {
      const dir = file(id, 'oom');
      const kept = isThere(dir) ? readdirSync(dir) : [];
      return kept
        .filter((cgroup) => !stillThere.includes(cgroup))
        .reduce((sum, cgroup) => sum + Number(readIfThere(path.join(dir, cgroup)) ?? 0), 0);
    },
  };
}

export type Records = ReturnType<typeof createRecords>;
