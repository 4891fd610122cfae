import { execFileSync, spawn } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  globSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { build } from 'esbuild';
import type { ExecHandle } from '../../../denv/drivers/driver';
import { createCgroups } from '../../../denv/drivers/linux/cgroups';
import { createLinuxDriver } from '../../../denv/drivers/linux/driver';
import { layoutOf } from '../../../denv/drivers/host/layout';
import { readArguments } from '../../../denv/drivers/host/processes';
import { actionsOn, followUntil } from '../driver-suite';

/** The process that started everything is killed with SIGKILL; another one takes over with nothing but the data directory. */

jest.setTimeout(60_000);

let dir: string;
let dataDir: string;

beforeAll(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'denv-crash-'));
  dataDir = path.join(dir, 'data');
  const outfile = path.join(dir, 'starter.cjs');
  const entryPoints = [path.join(__dirname, 'exec-starter.ts')];
  await build({ entryPoints, outfile, bundle: true, platform: 'node', logLevel: 'error' });
  const sources = path.resolve(__dirname, '../../../denv/drivers');
  for (const name of globSync('**/*.py', { cwd: sources })) {
    copyFileSync(path.join(sources, name), path.join(dir, path.basename(name)));
  }
});

afterAll(async () => {
  const driver = createLinuxDriver({ dataDir });
  await driver.open();
  await driver.shutdown();
  rmSync(dir, { recursive: true });
});

/** Runs the starter until its conversation has begun, then kills it. Returns the log offset it had read to. */
async function startAndKill(sandboxId: string): Promise<number> {
  const starter = spawn(process.execPath, [path.join(dir, 'starter.cjs'), dataDir, sandboxId], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const said = await new Promise<string>((resolve, reject) => {
    let text = '';
    starter.stdout.on('data', (data: Buffer) => {
      text += data.toString();
      if (text.includes('\n')) resolve(text);
    });
    starter.on('exit', () => reject(new Error(`the starter ended by itself: ${text}`)));
  });
  starter.removeAllListeners('exit');
  const gone = new Promise((resolve) => starter.on('exit', resolve));
  starter.kill('SIGKILL');
  await gone;
  return (JSON.parse(said) as { nextOffset: number }).nextOffset;
}

test('running execs go on: exit codes, all output and open conversations are there for the next process', async () => {
  const offset = await startAndKill('survivor');
  const driver = createLinuxDriver({ dataDir });
  await driver.open();
  const open = async (execId: string) => (await driver.openExec('survivor', execId)) as ExecHandle;
  const { endOf, sh } = actionsOn(driver, { kind: 'host' });
  const expected = (what: string) => Array.from({ length: 2000 }, (_, i) => `${what} ${i + 1}\n`);

  const held = await open('held');
  await held.write(Buffer.from('go\n'));
  await sh('survivor', 'touch go');
  const plain = await open('plain');
  const talk = await open('talk');
  await talk.write(Buffer.from('two\n'));
  const more = await followUntil(talk, offset, 'got two\n');

  expect(await endOf(held)).toEqual({
    end: { kind: 'exited', exitCode: 42 },
    stdout: expected('out').join(''),
    stderr: expected('err').join(''),
  });
  expect(await endOf(plain)).toEqual({
    end: { kind: 'exited', exitCode: 43 },
    stdout: `${expected('out').join('')}finite\n`,
    stderr: expected('err').join(''),
  });
  expect(more.text).toBe('got two\n');
  expect(await endOf(talk)).toMatchObject({
    end: { kind: 'exited', exitCode: 6 },
    stdout: 'got one\ngot two\n',
  });
  await driver.remove('survivor');
  await driver.close();
});

test('what another boot left is stopped, said to be so, and can be forked', async () => {
  const driver = createLinuxDriver({ dataDir });
  await driver.open();
  const image = { kind: 'host' } as const;
  const { newSandbox, newFork, sh } = actionsOn(driver, image);
  const id = await newSandbox();
  await sh(id, 'echo data > data');
  await driver.stop(id);
  const file = path.join(dataDir, 'run/sandboxes', id, 'record.json');
  const record = JSON.parse(readFileSync(file, 'utf8')) as { init: { bootId: string } };
  record.init.bootId = '00000000-0000-0000-0000-000000000000';
  writeFileSync(file, JSON.stringify(record));

  expect(await driver.state(id)).toMatchObject({ state: 'stopped', hostRestart: true });
  await driver.snapshot(id, 'after-boot', { stop: false });
  const fork = await newFork('after-boot');
  expect(await sh(fork, 'cat data')).toMatchObject({ stdout: 'data\n' });
  for (const sandboxId of [id, fork]) await driver.remove(sandboxId);
  await driver.removeVersion('after-boot');
  await driver.close();
});

test('remnants without an owner are listed and removed', async () => {
  const driver = createLinuxDriver({ dataDir });
  await driver.open();
  const layout = layoutOf(dataDir);
  mkdirSync(path.join(layout.records, 'only-a-record/execs/x'), { recursive: true });
  createCgroups().makeParent(`${layout.cgroup}/only-a-cgroup/x`);
  mkdirSync(path.join(layout.runcRoot, 'only-runc'));

  const remnants = ['only-a-cgroup', 'only-a-record', 'only-runc'];
  expect(await driver.list()).toEqual(expect.arrayContaining(remnants));
  for (const id of remnants) await driver.remove(id);
  for (const id of remnants) expect(await driver.list()).not.toContain(id);
  await driver.close();
});

test('a base that was left half made is swept away', async () => {
  const driver = createLinuxDriver({ dataDir });
  await driver.open();
  const layout = layoutOf(dataDir);
  mkdirSync(path.join(layout.bases, '.keep'));
  execFileSync('btrfs', ['-q', 'subvolume', 'create', path.join(layout.bases, '.tmp-half')]);

  await driver.open();

  expect(readdirSync(layout.bases)).not.toContain('.tmp-half');
  rmdirSync(path.join(layout.bases, '.keep'));
  await driver.close();
});

test('a disk with less than 1 GB free is refused, with nothing half made', async () => {
  const small = path.join(dir, 'small');
  mkdirSync(small);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=512m', 'tmpfs', small]);
  try {
    const driver = createLinuxDriver({ dataDir: small });

    await expect(driver.open()).rejects.toMatchObject({
      code: 'disk_full',
      message: `${small} has 512 MB free; 1024 MB are needed before anything new is made`,
    });
    expect(readdirSync(small)).toEqual(['fs']);
    expect(existsSync(layoutOf(small).runtimeDir)).toBe(false);
  } finally {
    execFileSync('umount', [small]);
  }
});

test('shutdown leaves no process, mount, loop device, cgroup or runtime directory', async () => {
  await startAndKill('left-running');
  const driver = createLinuxDriver({ dataDir });
  await driver.open();
  const layout = layoutOf(dataDir);

  await driver.shutdown();

  const seen = (command: string) => execFileSync('sh', ['-c', command]).toString();
  const hash = path.basename(layout.runtimeDir);
  expect(seen(`ls /run | grep -c '^${hash}$' || true`)).toBe('0\n');
  expect(seen(`grep -c '${layout.fsDir}' /proc/mounts || true`)).toBe('0\n');
  expect(seen(`losetup --noheadings --list -O BACK-FILE | grep -c '${dataDir}' || true`)).toBe(
    '0\n',
  );
  expect(seen(`find /sys/fs/cgroup -type d -path '*${layout.cgroup}*'`)).toBe('');
  const processes = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map((pid) => readArguments(Number(pid)).join(' '));
  expect(processes.filter((words) => words.includes(dataDir) || words.includes(hash))).toEqual([]);
});
