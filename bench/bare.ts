import { chownSync, copyFileSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { command, commandWithoutPipes } from './command';

/**
 * What the sandboxes are compared with: `btrfs subvolume snapshot` and `runc`, called as a person would, on a btrfs of its
 * own on a loop file, with the same tools of the host in view and the same uid.
 */
export interface Bare {
  /** A tree with `files` (sandbox path → host path) in it. */
  base(name: string, files: Record<string, string>): Promise<string>;
  snapshot(from: string, name: string): Promise<string>;
  /** `runc run -d`: returns when the process was started. `hostNetwork` spares it a network namespace. */
  run(id: string, tree: string, argv: string[], options?: { hostNetwork?: boolean }): Promise<void>;
  exec(id: string, argv: string[]): Promise<void>;
  remove(id: string): Promise<void>;
  /** Removes containers, trees, the mount and the loop file. */
  close(): Promise<void>;
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
        JSON.stringify(configOf(tree, argv, options.hostNetwork ?? false)),
      );
      running.add(id);
      await commandWithoutPipes(...runc('run', '-d', '--bundle', bundle, id));
    },
    async exec(id, argv) {
      await command(...runc('exec', id, ...argv));
    },
    remove,
    async close() {
      for (const id of running) await remove(id).catch(() => undefined);
      await command('umount', mount);
      rmSync(dir, { recursive: true, force: true });
    },
  };
}

function layOut(tree: string, files: Record<string, string>): void {
  const dirs = ['usr', 'etc', 'tmp', 'dev', 'proc', 'sys', 'opt/node', 'workspace', 'app'];
  for (const dir of dirs) mkdirSync(join(tree, dir), { recursive: true });
  for (const link of ['bin', 'lib', 'lib64', 'sbin']) symlinkSync(`usr/${link}`, join(tree, link));
  writeFileSync(join(tree, 'etc/passwd'), 'agent:x:1000:1000::/workspace:/bin/sh\n');
  chownSync(join(tree, 'workspace'), 1000, 1000);
  for (const [to, from] of Object.entries(files)) copyFileSync(from, join(tree, to));
}

function configOf(tree: string, argv: string[], hostNetwork: boolean): object {
  const bind = (source: string, destination: string) => ({
    source,
    destination,
    type: 'bind',
    options: ['rbind', 'ro', 'nosuid'],
  });
  const namespaces = ['pid', 'ipc', 'uts', 'mount', ...(hostNetwork ? [] : ['network'])];
  return {
    ociVersion: '1.0.2',
    process: {
      user: { uid: 1000, gid: 1000 },
      args: argv,
      env: ['PATH=/opt/node:/usr/bin:/bin', 'HOME=/workspace'],
      cwd: '/workspace',
      noNewPrivileges: true,
    },
    root: { path: tree },
    mounts: [
      { destination: '/proc', type: 'proc', source: 'proc' },
      {
        destination: '/dev',
        type: 'tmpfs',
        source: 'tmpfs',
        options: ['nosuid', 'strictatime', 'mode=755', 'size=65536k'],
      },
      bind('/usr', '/usr'),
      bind(dirname(process.execPath), '/opt/node'),
    ],
    linux: {
      namespaces: namespaces.map((type) => ({ type })),
      resources: { memory: { limit: 1024 * 1024 * 1024 }, pids: { limit: 256 } },
      maskedPaths: ['/proc/kcore', '/proc/keys', '/proc/timer_list'],
      readonlyPaths: ['/proc/sys', '/proc/irq', '/proc/bus', '/proc/sysrq-trigger'],
    },
  };
}
