import {
  chownSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { execProcess, sandboxConfig } from '../denv/drivers/linux/oci';
import { command, commandWithoutPipes } from './command';

/**
 * What the sandboxes are compared with: `btrfs subvolume snapshot` and `runc`, called as a person would, on a btrfs of its
 * own on a loop file, with the same image, mounts, limits and seccomp profile.
 */
export interface Bare {
  /** A tree with `files` (sandbox path → host path) in it. */
  base(name: string, files: Record<string, string>): Promise<string>;
  snapshot(from: string, name: string): Promise<string>;
  /** `runc run -d`: returns when the process was started. `hostNetwork` spares it a network namespace. */
  run(id: string, tree: string, argv: string[], options?: { hostNetwork?: boolean }): Promise<void>;
  exec(id: string, argv: string[]): Promise<void>;
  /** The same exec held by conmon, which alone lets it outlive its caller; until conmon has its exit code. */
  heldExec(id: string, argv: string[]): Promise<void>;
  remove(id: string): Promise<void>;
  /** Removes containers, trees, the mount and the loop file. */
  close(): Promise<void>;
}

interface OciConfig {
  process: object;
  mounts: { type: string }[];
  linux: { namespaces: { type: string }[] };
}

export async function openBare(dir: string, sizeGb: number): Promise<Bare> {
  const mount = join(dir, 'mnt');
  const image = join(dir, 'btrfs.img');
  const state = join(dir, 'runc');
  for (const path of [mount, state]) mkdirSync(path, { recursive: true });
  await command('truncate', '-s', `${sizeGb}G`, image);
  await command('mkfs.btrfs', '-q', image);
  await command('mount', '-o', 'loop,noatime', image, mount);
  const running = new Set<string>();
  const runc = (...args: string[]): [string, ...string[]] => ['runc', '--root', state, ...args];

  async function remove(id: string): Promise<void> {
    await command(...runc('delete', '-f', id));
    running.delete(id);
    rmSync(join(dir, `bundle-${id}`), { recursive: true, force: true });
  }

  return {
    async base(name, files) {
      const tree = join(mount, name);
      await command('btrfs', 'subvolume', 'create', tree);
      layOut(tree, files);
      await command('btrfs', 'filesystem', 'sync', mount);
      return tree;
    },
    async snapshot(from, name) {
      const tree = join(mount, name);
      await command('btrfs', 'subvolume', 'snapshot', from, tree);
      return tree;
    },
    async run(id, tree, argv, options = {}) {
      const bundle = join(dir, `bundle-${id}`);
      mkdirSync(bundle, { recursive: true });
      writeFileSync(
        join(bundle, 'config.json'),
        JSON.stringify(configOf(id, tree, argv, options.hostNetwork ?? false)),
      );
      running.add(id);
      await commandWithoutPipes(...runc('run', '-d', '--bundle', bundle, id));
    },
    async exec(id, argv) {
      await command(...runc('exec', id, ...argv));
    },
    async heldExec(id, argv) {
      const files = join(dir, `held-${id}`);
      rmSync(files, { recursive: true, force: true });
      mkdirSync(files);
      const exec = { argv, uid: 1000, cwd: '/', env: {}, stdin: null };
      const process = execProcess(exec, { kind: 'host' });
      writeFileSync(join(files, 'process.json'), JSON.stringify(process));
      const names = [
        '--api-version',
        '1',
        '--full-attach',
        '-c',
        id,
        '-n',
        id,
        '-u',
        `held-${id}`,
        '-b',
        files,
        '--exit-dir',
        files,
      ];
      const logs = ['-p', join(files, 'pid'), '-l', `k8s-file:${join(files, 'log')}`];
      const runtime = ['-r', '/usr/sbin/runc', `--runtime-arg=--root=${state}`];
      const what = ['-e', '--exec-process-spec', join(files, 'process.json'), '--sync'];
      await commandWithoutPipes('conmon', ...names, ...logs, ...runtime, ...what);
    },
    remove,
    async close() {
      for (const id of running) await remove(id).catch(() => undefined);
      removeCgroups();
      await command('umount', mount);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

/** runc leaves the parent of the cgroups that it made, in each hierarchy. */
function removeCgroups(): void {
  for (const line of readFileSync('/proc/mounts', 'utf8').split('\n')) {
    const [, path, type] = line.split(' ');
    if (type !== 'cgroup' && type !== 'cgroup2') continue;
    const parent = join(path ?? '', cgroup);
    if (existsSync(parent)) rmdirSync(parent);
  }
}

function layOut(tree: string, files: Record<string, string>): void {
  const dirs = ['usr', 'etc', 'tmp', 'dev', 'proc', 'sys', 'opt/node', 'workspace', 'app'];
  for (const dir of dirs) mkdirSync(join(tree, dir), { recursive: true });
  for (const link of ['bin', 'lib', 'lib64', 'sbin']) symlinkSync(`usr/${link}`, join(tree, link));
  writeFileSync(join(tree, 'etc/passwd'), 'agent:x:1000:1000::/workspace:/bin/sh\n');
  chownSync(join(tree, 'workspace'), 1000, 1000);
  for (const [to, from] of Object.entries(files)) copyFileSync(from, join(tree, to));
}

const cgroup = `rollouts-bench-${process.pid}`;
/** What the server gives a sandbox that asks for nothing. */
const caps = { cpus: 1, memoryMb: 1024, pids: 256 };

/** The configuration of a sandbox of ours, so that both sides have the same isolation, running `argv` as the agent. */
function configOf(id: string, tree: string, argv: string[], hostNetwork: boolean): object {
  const image = { kind: 'host' as const };
  const spec = { sandboxId: id, from: { kind: 'base' as const, base: '' }, image, caps };
  const where = { rootfs: tree, cgroup: `${cgroup}/${id}`, nodePath: process.execPath };
  const config = sandboxConfig(spec, where) as OciConfig; // what runc reads
  const env = ['PATH=/opt/node/bin:/usr/bin:/bin', 'HOME=/workspace'];
  const user = { uid: 1000, gid: 1000 };
  const namespaces = config.linux.namespaces.filter(
    ({ type }) => !(hostNetwork && type === 'network'),
  );
  return {
    ...config,
    process: { ...config.process, args: argv, user, env, cwd: '/workspace' },
    // Both are of a network namespace, and refused without one.
    mounts: config.mounts.filter(({ type }) => !(hostNetwork && type === 'sysfs')),
    linux: { ...config.linux, namespaces, ...(hostNetwork ? { sysctl: {} } : {}) },
  };
}
