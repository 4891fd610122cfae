import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errnoOf } from '../../../machine/errno';
import { DenvError } from '../../errors';
import { isAbsence, isThere, listDirectories, readIfThere } from '../../../machine/files';

/**
 * Cgroups by name relative to the root of every hierarchy: one tree on a pure v2 host, one for each controller and an almost
 * empty v2 tree beside them on a hybrid one. Freezing and killing use the v2 tree, limits are wherever their controller is.
 */
export interface Cgroups {
  /** Directory of a cgroup in the v2 tree. */
  directory(name: string): string;
  exists(name: string): boolean;
  /** Makes a cgroup that only holds others, in each hierarchy. Idempotent. */
  makeParent(name: string): void;
  /** Makes a child of a cgroup in each hierarchy, ready to be joined. Idempotent. */
  makeChild(name: string, child: string): void;
  children(name: string): string[];
  isPopulated(name: string): boolean;
  /** Kills every process in it and below, and resolves when it is empty. */
  kill(name: string): Promise<void>;
  /** Thaws it and all below. */
  thaw(name: string): void;
  /** Removes it and all below, in each hierarchy. It must be empty of processes, or about to be. */
  remove(name: string): Promise<void>;
  /** Removes it unless there is something below. */
  removeIfEmpty(name: string): void;
  /** Processes of it and below that the kernel killed for want of memory, as far as the cgroups still tell. */
  oomKills(name: string): number;
  limits(name: string): { memory: string | null; pids: string | null; cpu: string | null };
}

interface Hierarchy {
  dir: string;
  v2: boolean;
  controllers: string[];
}

const emptyLimitMs = 20_000;

/** Looks the host over when first used. @throws DenvError capability_missing, then, when the host has no v2 tree */
export function createCgroups(): Cgroups {
  let found: { all: Hierarchy[]; unified: Hierarchy } | undefined;
  const host = () => (found ??= findHierarchies());
  const withController = (controller: string) =>
    host().all.find((hierarchy) => hierarchy.controllers.includes(controller)) ?? host().unified;
  const directory = (name: string) => path.join(host().unified.dir, name);
  const exists = (name: string) => host().all.some(({ dir }) => isThere(path.join(dir, name)));
  const isPopulated = (name: string) =>
    (readIfThere(path.join(directory(name), 'cgroup.events')) ?? '').includes('populated 1');

  return {
    directory,
    exists,
    makeChild(name, child) {
      for (const { dir, v2, controllers } of host().all) {
        const parent = path.join(dir, name);
        if (!isThere(parent)) continue;
        mkdirSync(path.join(parent, child), { recursive: true });
        // A v1 cpuset starts empty, and joining an empty one fails with "no space left on device".
        if (!v2 && controllers.includes('cpuset')) {
          for (const file of ['cpuset.cpus', 'cpuset.mems']) {
            writeFileSync(path.join(parent, child, file), readFileSync(path.join(parent, file)));
          }
        }
      }
    },
    makeParent(name) {
      for (const { dir } of host().all) mkdirSync(path.join(dir, name), { recursive: true });
    },
    children(name) {
      return [...new Set(host().all.flatMap(({ dir }) => listDirectories(path.join(dir, name))))];
    },
    isPopulated,
    async kill(name) {
      const file = path.join(directory(name), 'cgroup.kill');
      const deadline = Date.now() + emptyLimitMs;
      while (isPopulated(name)) {
        try {
          writeFileSync(file, '1');
        } catch (error) {
          if (isAbsence(error)) return;
          throw error;
        }
        for (let wait = 0; wait < 20 && isPopulated(name); wait += 1) await sleep(1);
        if (Date.now() > deadline) {
          throw new DenvError('unavailable', `processes of cgroup ${name} survive their kill`);
        }
      }
    },
    thaw(name) {
      for (const dir of [directory(name), ...descendants(directory(name))]) {
        const file = path.join(dir, 'cgroup.freeze');
        if (readIfThere(file)?.trim() === '1') writeFileSync(file, '0');
      }
    },
    async remove(name) {
      for (const { dir } of host().all) await removeTree(path.join(dir, name));
    },
    removeIfEmpty(name) {
      for (const { dir } of host().all) {
        const at = path.join(dir, name);
        if (isThere(at) && listDirectories(at).length === 0) rmdirSync(at);
      }
    },
    oomKills(name) {
      const memory = withController('memory');
      const root = path.join(memory.dir, name);
      if (memory.v2) return readCount(path.join(root, 'memory.events'), 'oom_kill');
      return [root, ...descendants(root)].reduce(
        (sum, dir) => sum + readCount(path.join(dir, 'memory.oom_control'), 'oom_kill'),
        0,
      );
    },
    limits(name) {
      const read = (controller: string, v1: string, v2: string) => {
        const hierarchy = withController(controller);
        const file = path.join(hierarchy.dir, name, hierarchy.v2 ? v2 : v1);
        return readIfThere(file)?.trim() ?? null;
      };
      return {
        memory: read('memory', 'memory.limit_in_bytes', 'memory.max'),
        pids: read('pids', 'pids.max', 'pids.max'),
        cpu: read('cpu', 'cpu.cfs_quota_us', 'cpu.max'),
      };
    },
  };
}

function findHierarchies(): { all: Hierarchy[]; unified: Hierarchy } {
  const all = hierarchies();
  const unified = all.find((hierarchy) => hierarchy.v2);
  if (unified) return { all, unified };
  throw new DenvError(
    'capability_missing',
    'the linux driver needs a cgroup v2 mount (hybrid is enough): it freezes and kills sandboxes by it',
  );
}

function hierarchies(): Hierarchy[] {
  const found: Hierarchy[] = [];
  for (const line of readFileSync('/proc/self/mountinfo', 'utf8').split('\n')) {
    const [before, after] = line.split(' - ');
    const dir = before?.split(' ')[4];
    const [type, , options] = after?.split(' ') ?? [];
    if (!dir || (type !== 'cgroup' && type !== 'cgroup2')) continue;
    const v2 = type === 'cgroup2';
    const controllers = v2
      ? (readIfThere(path.join(dir, 'cgroup.controllers')) ?? '').trim().split(' ')
      : (options ?? '').split(',');
    found.push({ dir, v2, controllers });
  }
  return found;
}

function descendants(dir: string): string[] {
  return listDirectories(dir).flatMap((name) => {
    const child = path.join(dir, name);
    return [child, ...descendants(child)];
  });
}

function readCount(file: string, key: string): number {
  const line = (readIfThere(file) ?? '').split('\n').find((text) => text.startsWith(`${key} `));
  return line ? Number(line.slice(key.length + 1)) : 0;
}

/** Deepest first. A process that was just killed may still be leaving, so a busy cgroup is tried again for a while. */
async function removeTree(dir: string): Promise<void> {
  for (const name of listDirectories(dir)) await removeTree(path.join(dir, name));
  const deadline = Date.now() + emptyLimitMs;
  for (;;) {
    try {
      rmdirSync(dir);
      return;
    } catch (error) {
      if (isAbsence(error)) return;
      if (errnoOf(error) !== 'EBUSY' || Date.now() > deadline) throw error;
      await sleep(2);
    }
  }
}
