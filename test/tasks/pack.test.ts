import { execFileSync } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, symlink, truncate, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PackedTask } from '../../contracts/task';
import type { Task } from '../../contracts/task';
import { createDirectoryBlobs } from '../../stores/directory-blobs';
import { packTask } from '../../tasks/pack';
import { packTree, TreeRefusedError } from '../../tasks/tree-tar';

describe('packing', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'pack-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  async function tree(name: string): Promise<string> {
    const root = join(dir, name);
    await mkdir(join(root, 'sub'), { recursive: true });
    await mkdir(join(root, 'empty'));
    await writeFile(join(root, 'sub', 'b.txt'), 'bee');
    await writeFile(join(root, 'a.sh'), '#!/bin/sh\n');
    await chmod(join(root, 'a.sh'), 0o755);
    await chmod(join(root, 'sub', 'b.txt'), 0o640);
    await symlink('../a.sh', join(root, 'sub', 'link'));
    return root;
  }

  const listing = (tar: Buffer) =>
    execFileSync('tar', ['-tvf', '-', '--utc'], { input: tar, encoding: 'utf8' })
      .trim()
      .split('\n')
      .map((line) => line.replace(/\s+/g, ' '));

  it('keeps names, contents, modes and inner links, and nothing of this machine', async () => {
    const { to, tar } = await packTree(await tree('one'), '/app');

    expect(to).toBe('/app');
    expect(listing(tar)).toEqual([
      '-rwxr-xr-x 0/0 10 1970-01-01 00:00 a.sh',
      'drwxr-xr-x 0/0 0 1970-01-01 00:00 empty',
      'drwxr-xr-x 0/0 0 1970-01-01 00:00 sub',
      '-rw-r----- 0/0 3 1970-01-01 00:00 sub/b.txt',
      'lrwxrwxrwx 0/0 0 1970-01-01 00:00 sub/link -> ../a.sh',
    ]);
  });

  it('gives equal bytes for equal trees, whatever folder and time', async () => {
    const one = await tree('one');
    const two = await tree('another-name');
    await utimes(join(two, 'a.sh'), 1000, 1000);

    const [a, b] = [await packTree(one, '/x'), await packTree(two, '/x')];

    expect(a.tar.equals(b.tar)).toBe(true);
  });

  it.each([
    ['/verify/check.sh', '/verify', 'check.sh'],
    ['/verify/', '/verify/', 'a.sh'],
    ['/check.sh', '/', 'check.sh'],
  ])('puts a file at %s', async (target, to, name) => {
    const packed = await packTree(join(await tree('one'), 'a.sh'), target);

    expect(packed.to).toBe(to);
    expect(listing(packed.tar)).toEqual([`-rwxr-xr-x 0/0 10 1970-01-01 00:00 ${name}`]);
  });

  it.each([
    ['../../secret', 'leads out of'],
    ['/etc/passwd', 'leads out of'],
  ])('refuses a link to %s', async (target, told) => {
    const root = await tree('one');
    await symlink(target, join(root, 'out'));

    await expect(packTree(root, '/x')).rejects.toThrow(told);
  });

  it('refuses a pipe', async () => {
    const root = await tree('one');
    execFileSync('mkfifo', [join(root, 'pipe')]);

    await expect(packTree(root, '/x')).rejects.toThrow('pipe is a socket, pipe or device');
  });

  it('refuses too large a tree and says what to do', async () => {
    const root = await tree('one');
    await writeFile(join(root, 'big'), '');
    await truncate(join(root, 'big'), 65 * 2 ** 20);

    const packing = packTree(root, '/x');

    await expect(packing).rejects.toThrow(TreeRefusedError);
    await expect(packing).rejects.toThrow(
      /one has 66 MB and a packed tree may have 64: leave out what the task does not need/,
    );
  });

  const taskIn = (root: string): { folder: string; name: string; tasks: Task[] } => ({
    name: 'set',
    folder: root,
    tasks: [
      {
        id: 't',
        prompt: 'p',
        environment: { image: 'host', files: [{ from: './sub', to: '/app' }] },
        verifier: { image: 'host', command: ['sh'], files: [{ from: 'a.sh', to: '/v/a.sh' }] },
      },
    ],
  });

  it('packs a task into blobs with no path of this machine left', async () => {
    const blobs = createDirectoryBlobs(join(dir, 'blobs'));
    const root = await tree('one');
    await rm(join(root, 'sub', 'link'));
    const taskset = taskIn(root);

    const { packed, taskRef } = await packTask(taskset, taskset.tasks[0]!, blobs);

    const text = (await blobs.get(taskRef)).toString();
    expect(PackedTask.parse(JSON.parse(text))).toEqual(JSON.parse(JSON.stringify(packed)));
    expect(text).not.toContain(dir);
    expect(text).not.toContain('from');
    expect(packed.environmentFiles.map(({ to }) => to)).toEqual(['/app']);
    expect(listing(await blobs.get(packed.verifierFiles[0]!.ref))).toHaveLength(1);
  });

  it('digests what a task is, not where it lies', async () => {
    const blobs = createDirectoryBlobs(join(dir, 'blobs'));
    const digest = async (root: string, change: (task: Task) => Task = (task) => task) => {
      const taskset = taskIn(root);
      return (await packTask(taskset, change(taskset.tasks[0]!), blobs)).packed.digest;
    };
    const one = await tree('one');
    const two = await tree('two');
    for (const root of [one, two]) await rm(join(root, 'sub', 'link'));

    const first = await digest(one);

    expect(await digest(two)).toBe(first);
    expect(await digest(one, (task) => ({ ...task, prompt: 'other' }))).not.toBe(first);
    await writeFile(join(two, 'sub', 'b.txt'), 'bit');
    expect(await digest(two)).not.toBe(first);
  });

  it('digests neither the address of an environment nor how many share it', async () => {
    const blobs = createDirectoryBlobs(join(dir, 'blobs'));
    const packedAt = async (address: string, shared?: number) => {
      const controller = { kind: 'hud' as const };
      const task: Task = {
        id: 't',
        hud: { id: 'add' },
        environment: { target: 'tcp', address, controller, ...(shared ? { shared } : {}) },
      };
      return (await packTask({ name: 'set', folder: dir, tasks: [task] }, task, blobs)).packed;
    };

    const [here, there] = [await packedAt('127.0.0.1:1'), await packedAt('h:2', 3)];

    expect(there.digest).toBe(here.digest);
    expect(there.task.environment).toMatchObject({ address: 'h:2', shared: 3 });
  });

  it('puts the trees of a runtime below the files of the task', async () => {
    const blobs = createDirectoryBlobs(join(dir, 'blobs'));
    const root = await tree('one');
    await rm(join(root, 'sub', 'link'));
    const taskset = taskIn(root);
    const runtime = { to: '/opt/hud', ref: 'sha256:1', bytes: 1 };
    const trees = new Map([['t', [{ pack: async () => runtime }]]]);

    const { packed } = await packTask({ ...taskset, trees }, taskset.tasks[0]!, blobs);

    expect(packed.environmentFiles.map(({ to }) => to)).toEqual(['/opt/hud', '/app']);
    expect(packed.digest).not.toBe(
      (await packTask(taskset, taskset.tasks[0]!, blobs)).packed.digest,
    );
  });
});
