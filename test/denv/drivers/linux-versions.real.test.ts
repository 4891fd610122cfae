import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { SandboxDriver } from '../../../denv/drivers/driver';
import { createLinuxDriver } from '../../../denv/drivers/linux/driver';
import { actionsOn, followUntil, newId, type Actions } from '../driver-suite';
import { until } from '../server-process';

jest.setTimeout(60_000);

const MB = 2 ** 20;
const image = { kind: 'host' } as const;
const since = (versionId: string) => ({ kind: 'version', versionId }) as const;

let dataDir: string;
let driver: SandboxDriver;
let actions: Actions;

beforeAll(async () => {
  dataDir = mkdtempSync(path.join(tmpdir(), 'denv-versions-'));
  driver = createLinuxDriver({ dataDir, loopSizeGb: 4 });
  await driver.open();
  actions = actionsOn(driver, image);
});

afterAll(async () => {
  await driver.shutdown();
  rmSync(dataDir, { recursive: true });
});

/** Writes to the same page of a mapped file, again and again, and says what it has written. */
const mappedWriter = `
import mmap, sys
with open('mapped', 'wb') as file: file.write(bytes(4096))
with open('mapped', 'r+b') as file:
    page = mmap.mmap(file.fileno(), 4096)
    for line in sys.stdin:
        page[0:8] = int(line).to_bytes(8, 'little')
        print('wrote', int(line), flush=True)
`;

describe('what has changed in a running sandbox', () => {
  test('nothing that was written before it was asked is missed, also by a process that never stops', async () => {
    const id = await actions.newSandbox();
    const writer = 'i=0; while :; do i=$((i+1)); echo $i >> log; echo $i; sleep 0.003; done';
    const { handle } = await actions.start(id, ['sh', '-c', writer]);
    await followUntil(handle, 0, '1\n');
    let last = newId('ver');
    await driver.snapshot(id, last, { stop: false });
    const versions = [last];
    const numberAt = (text: string) => Number(text.trimEnd().split('\n').at(-1));
    const written = async () => numberAt((await handle.output(MB)).stdout.toString());
    const lastOf = (versionId: string) =>
      numberAt(readFileSync(path.join(driver.versionPath(versionId), 'workspace/log'), 'utf8'));

    for (let n = 0; n < 20; n += 1) {
      const old = lastOf(last);
      await until('more was written', async () => (await written()) > old);
      const before = await written();

      expect(await driver.changedSince(id, since(last))).toMatchObject({ changed: true });
      last = newId('ver');
      versions.push(last);
      await driver.snapshot(id, last, { stop: false });

      expect(lastOf(last)).toBeGreaterThanOrEqual(before);
    }

    await handle.kill();
    handle.release();
    await driver.remove(id);
    for (const versionId of versions) await driver.removeVersion(versionId);
  });

  test('a write through a mapping counts, the second to the same page too', async () => {
    const id = await actions.newSandbox();
    const argv = ['python3', '-c', mappedWriter];
    const exec = await driver.attachExec(id, newId('a'), {
      argv,
      uid: 1000,
      cwd: '/workspace',
      env: {},
    });
    const versions: string[] = [];

    for (const n of [1, 2, 3]) {
      const said = new Promise((resolve) => exec.stdout.once('data', resolve));
      exec.stdin.write(`${n}\n`);
      await said;
      const before = versions.at(-1);
      const changed = before ? (await driver.changedSince(id, since(before))).changed : true;
      const versionId = newId('ver');
      await driver.snapshot(id, versionId, { stop: false });
      versions.push(versionId);
      const file = path.join(driver.versionPath(versionId), 'workspace/mapped');
      expect({ n, changed, held: readFileSync(file).readUInt8(0) }).toEqual({
        n,
        changed: true,
        held: n,
      });
      expect(await driver.changedSince(id, since(versionId))).toMatchObject({ changed: false });
    }

    await exec.end();
    await driver.remove(id);
    for (const versionId of versions) await driver.removeVersion(versionId);
  });

  test('another process on the same data directory tells the same', async () => {
    const id = await actions.newSandbox();
    const versionId = newId('ver');
    await actions.sh(id, 'echo a > data');
    await driver.snapshot(id, versionId, { stop: false });
    const other = createLinuxDriver({ dataDir });
    await other.open();

    const before = await other.changedSince(id, since(versionId));
    await actions.sh(id, 'echo b > data');
    const after = await other.changedSince(id, since(versionId));

    expect([before.changed, after.changed]).toEqual([false, true]);
    await other.close();
    await driver.remove(id);
    await driver.removeVersion(versionId);
  });
});

describe('what a version holds', () => {
  test('its size is what no other tree shares', async () => {
    const id = await actions.newSandbox();
    const [first, second] = [newId('ver'), newId('ver')];
    await actions.sh(id, 'head -c 3000000 /dev/urandom > old; head -c 1000000 /dev/urandom > kept');
    await driver.snapshot(id, first, { stop: false });
    await actions.sh(id, 'rm old; head -c 500000 /dev/urandom > new');
    await driver.snapshot(id, second, { stop: false });

    const bytes = [await driver.versionBytes(first), await driver.versionBytes(second)];

    expect(bytes[0]).toBeGreaterThanOrEqual(3_000_000);
    expect(bytes[0]).toBeLessThan(3_100_000);
    expect(bytes[1]).toBe(0);
    await driver.remove(id);
    for (const versionId of [first, second]) await driver.removeVersion(versionId);
    expect(await driver.versionBytes(first)).toBeNull();
  });

  test('siblings with files of the same size, time and inode number differ by content alone', async () => {
    const parent = await actions.newSandbox();
    const start = newId('ver');
    await driver.snapshot(parent, start, { stop: false });
    const versions: string[] = [];
    for (const text of ['one', 'two']) {
      const fork = await actions.newFork(start);
      await actions.sh(fork, `echo ${text} > data; echo both > both; touch -d @1 data both`);
      const versionId = newId('ver');
      await driver.snapshot(fork, versionId, { stop: false });
      versions.push(versionId);
      await driver.remove(fork);
    }
    const [a = '', b = ''] = versions;

    const diff = await driver.diff(since(a), since(b), 10);

    expect(diff.files).toEqual([{ path: '/workspace/data', change: 'changed', bytes: 4 }]);
    await driver.remove(parent);
    for (const versionId of [start, ...versions]) await driver.removeVersion(versionId);
  });
});

describe('a snapshot that cannot hold what was written', () => {
  /** A btrfs on a loop file that cannot grow to what is written: its disk is fuller than it seems. */
  const program = `
import ctypes, json, os, sys
sys.path.insert(0, sys.argv[1])
import trees
root = sys.argv[2]
tree = root + '/tree'
trees.subvolume(tree)
outcomes = []
def attempt(name):
    try:
        trees.snapshot(tree, root + '/' + name, True, True, None, False)
        outcomes.append('taken')
    except OSError as error:
        outcomes.append('failed')
attempt('before')
with open(tree + '/data', 'wb') as file:
    for _ in range(100): file.write(os.urandom(1 << 20))
attempt('after')
print(json.dumps({'outcomes': outcomes, 'left': sorted(os.listdir(root))}))
`;

  test('fails, and leaves none', () => {
    const dir = mkdtempSync(path.join(tmpdir(), 'denv-flush-'));
    const [disk, mount] = [path.join(dir, 'disk'), path.join(dir, 'mount')];
    for (const made of [disk, mount]) mkdirSync(made);
    const run = (command: string, ...args: string[]) => execFileSync(command, args).toString();
    try {
      run('mount', '-t', 'tmpfs', '-o', 'size=48m', 'tmpfs', disk);
      run('truncate', '-s', '300M', path.join(disk, 'image'));
      run('mkfs.btrfs', '-q', '-d', 'single', '-m', 'single', path.join(disk, 'image'));
      run('mount', '-o', 'loop,noatime', path.join(disk, 'image'), mount);
      const sources = path.resolve(__dirname, '../../../denv/drivers/host');

      const found = JSON.parse(run('/usr/bin/python3', '-B', '-c', program, sources, mount));

      expect(found.outcomes).toEqual(['taken', 'failed']);
      expect(found.left).toEqual(['before', 'tree']);
    } finally {
      for (const at of [mount, disk]) {
        try {
          run('umount', '-l', at);
        } catch {
          // It was never mounted.
        }
      }
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
