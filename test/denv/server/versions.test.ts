import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { createDenvClient, type DenvClient } from '../../../denv/client';
import type { SandboxDriver } from '../../../denv/drivers/driver';
import { versionIdOf } from '../../../denv/ids';
import { Archives } from '../../../denv/server/archives';
import { defaultSettings, type ServerContext } from '../../../denv/server/context';
import { Journal } from '../../../denv/server/journal';
import { Operations } from '../../../denv/server/operations';
import { OutputGuard } from '../../../denv/server/output-guard';
import { Sandboxes } from '../../../denv/server/sandboxes';
import { type DenvServer, startDenvServer } from '../../../denv/server/server';
import { createTargets } from '../../../denv/server/targets';
import { Versions } from '../../../denv/server/versions';
import { createFakeDriver } from '../../fakes/fake-driver';

const DAY_S = 86_400;
const log = pino({ level: 'silent' });

let dataDir: string;
let driver: SandboxDriver;
let server: DenvServer;
let client: DenvClient;
let serial = 0;
const newKey = () => ({ key: `k${(serial += 1)}` });

async function start(): Promise<void> {
  server = await startDenvServer({
    driver,
    log,
    settings: { dataDir, apiKey: 'dak_1' },
  });
  client = createDenvClient({
    server: 'http://denv.test',
    apiKey: 'dak_1',
    fetch: (request) => server.fetch(request),
  });
}

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'denv-versions-'));
  driver = createFakeDriver(join(dataDir, 'fake'));
  await start();
});
afterEach(async () => {
  jest.restoreAllMocks();
  await server.stop();
  await driver.shutdown();
  rmSync(dataDir, { recursive: true, force: true });
});

const create = (labels: Record<string, string> = {}) =>
  client.createSandbox({ image: 'host', labels }, newKey());
const write = (id: string, script: string) =>
  client.exec(id, { argv: ['sh', '-c', script] }, newKey());
const changed = (id: string, script = 'true', key = newKey()) =>
  client.exec(id, { argv: ['sh', '-c', script], snapshot: 'changed' }, key);
const forkOf = async (versionId: string) => {
  const [child] = (await client.forkVersion(versionId, {}, newKey())).children;
  if (!child || 'error' in child) throw new Error('no child');
  return child.sandbox;
};

describe('a snapshot of what has changed', () => {
  it('is the start version while nothing has, and the last version later', async () => {
    const { id, version } = await create();

    const first = await changed(id, 'echo a > data');
    const second = await changed(id);
    const third = await changed(id);

    expect(first).toMatchObject({ version, unchanged: true });
    expect(second).toMatchObject({ unchanged: false });
    expect(second.version).not.toBe(version);
    expect(third).toMatchObject({ version: second.version, unchanged: true });
  });

  it('is taken before the call: what the call does is in the next one', async () => {
    const { id } = await create();

    const before = await changed(id, 'echo a > data');
    const after = await changed(id, 'echo b > data');

    await expect(
      client.readVersionFile(before.version ?? '', '/workspace/data'),
    ).rejects.toMatchObject({ code: 'invalid_request' });
    const data = await client.readVersionFile(after.version ?? '', '/workspace/data');
    expect(data.toString()).toBe('a\n');
  });

  it('counts from any version that was taken, however that was', async () => {
    const { id } = await create();
    await write(id, 'echo a > data');

    const version = await client.snapshot(id, {}, newKey());
    const reply = await changed(id);

    expect(reply).toMatchObject({ version: version.id, unchanged: true });
  });

  it('holds over a restart of the server, and in a fork', async () => {
    const { id } = await create();
    await write(id, 'echo a > data');
    const { version } = await changed(id);

    await server.stop();
    await start();
    const again = await changed(id);
    const child = await forkOf(version ?? '');
    const inChild = await changed(child.id, 'echo b > data');
    const later = await changed(child.id);

    expect(again).toMatchObject({ version, unchanged: true });
    expect(inChild).toMatchObject({ version, unchanged: true });
    expect(later.unchanged).toBe(false);
  });

  it('is taken anew when the last version is gone', async () => {
    const { id } = await create();
    await write(id, 'echo a > data');
    const first = await changed(id);
    await client.deleteVersion(first.version ?? '');

    const second = await changed(id);

    expect(second.unchanged).toBe(false);
    expect(second.version).not.toBe(first.version);
  });

  it('keeps the version that it answers for as long as a new one', async () => {
    const { id } = await create();
    await write(id, 'echo a > data');
    const { version = '' } = await changed(id);
    await client.retainVersion(version, { retentionS: 10 });

    await changed(id);

    const { retainUntil } = await client.getVersion(version);
    expect(Date.parse(retainUntil)).toBeGreaterThan(Date.now() + 6 * DAY_S * 1000);
  });

  it('is the same in a call, and what was found first when the answer is asked for again', async () => {
    const { id, version } = await create();
    const key = newKey();
    const call = () =>
      client.call(
        id,
        {
          method: 'tools/call',
          params: { name: 'bash', arguments: { command: 'echo a >> data' } },
          snapshot: 'changed',
        },
        key,
      );

    const first = await call();
    const again = await call();

    expect(first).toMatchObject({ version, unchanged: true });
    expect(again).toEqual(first);
  });

  it('leaves nothing of a call whose snapshot failed, and the same key may try again', async () => {
    const { id } = await create();
    await write(id, 'echo a > data');
    const key = newKey();
    const real = driver.snapshot.bind(driver);
    driver.snapshot = () => Promise.reject(new Error('the disk failed'));

    await expect(changed(id, 'echo b >> data', key)).rejects.toThrow('the disk failed');
    driver.snapshot = real;
    const reply = await changed(id, 'echo b >> data; cat data', key);

    expect(reply).toMatchObject({ stdout: 'a\nb\n', unchanged: false });
  });
});

describe('kept versions', () => {
  it('are listed by their labels and their sandbox, oldest first, with who was made from them', async () => {
    const one = await create({ owner: 'me', rolloutId: 'r1' });
    const two = await create({ owner: 'me', rolloutId: 'r2' });
    const other = await create({ owner: 'you' });
    const versions = [];
    for (const { id } of [one, two, other, one]) {
      await write(id, 'echo x >> data');
      versions.push((await client.snapshot(id, {}, newKey())).id);
    }
    const child = await forkOf(versions[0] ?? '');
    const idsOf = async (filter: Parameters<DenvClient['listVersions']>[0]) =>
      (await client.listVersions(filter)).versions.map(({ id }) => id);

    expect(await idsOf({ owner: 'me' })).toEqual([versions[0], versions[1], versions[3]]);
    expect(await idsOf({ owner: 'me', rolloutId: 'r2' })).toEqual([versions[1]]);
    expect(await idsOf({ sandbox: one.id })).toEqual([versions[0], versions[3]]);
    expect(await idsOf({})).toEqual(versions);
    const [first, second] = (await client.listVersions({ owner: 'me' })).versions;
    expect(first).toMatchObject({ usedBy: [child.id], bytes: null });
    expect(second).toMatchObject({ usedBy: [] });
  });

  it('are not deleted while a sandbox made from them lives', async () => {
    const { id } = await create();
    const version = await client.snapshot(id, {}, newKey());
    const child = await forkOf(version.id);

    await expect(client.deleteVersion(version.id)).rejects.toMatchObject({
      code: 'version_in_use',
      details: { usedBy: [child.id] },
    });
    await client.deleteSandbox(child.id);
    await client.deleteVersion(version.id);
    await client.deleteVersion(version.id);

    await expect(client.getVersion(version.id)).rejects.toMatchObject({
      code: 'version_not_found',
    });
    expect(await driver.hasVersion(version.id)).toBe(false);
  });

  it('are not deleted while an operation needs them', async () => {
    const { id } = await create();
    const version = await client.snapshot(id, { retentionS: 1 }, newKey());
    const real = driver.create.bind(driver);
    const refusals: unknown[] = [];
    // In the middle of the fork, before its sandbox is there to be a user of it.
    driver.create = async (spec) => {
      jest.spyOn(Date, 'now').mockReturnValue(Date.parse(version.createdAt) + 3_600_000);
      for (const row of await listOfRows()) refusals.push(row);
      await client.deleteVersion(version.id).catch((error: unknown) => refusals.push(error));
      return real(spec);
    };
    const listOfRows = async () => (await client.listVersions({})).versions.map((v) => v.id);

    const reply = await client.forkVersion(version.id, {}, newKey());

    expect(refusals).toEqual([version.id, expect.objectContaining({ code: 'version_in_use' })]);
    expect(reply.children).toEqual([{ sandbox: expect.objectContaining({ state: 'running' }) }]);
  });

  it('of an image stay with it: not listed, not deleted, not given an end', async () => {
    const { version } = await create();

    const refused = { code: 'invalid_request', message: expect.stringContaining('start version') };
    await expect(client.deleteVersion(version)).rejects.toMatchObject(refused);
    await expect(client.retainVersion(version, { retentionS: 1 })).rejects.toMatchObject(refused);
    expect((await client.listVersions()).versions).toEqual([]);
    expect((await client.getVersion(version)).usedBy).toHaveLength(1);
  });

  it('get another end of their retention, to earlier too', async () => {
    const { id } = await create();
    const version = await client.snapshot(id, {}, newKey());
    const leftS = async () =>
      (Date.parse((await client.getVersion(version.id)).retainUntil) - Date.now()) / 1000;

    await client.retainVersion(version.id, { retentionS: 30 * DAY_S });
    const longer = await leftS();
    await client.retainVersion(version.id, { retentionS: 60 });

    expect(longer).toBeGreaterThan(29 * DAY_S);
    expect(await leftS()).toBeLessThanOrEqual(60);
  });

  it('differ by the content of their files', async () => {
    const { id, version: start } = await create();
    await write(id, 'echo a > a; echo b > b; mkdir d; echo c > d/c; ln -s a link');
    const first = await client.snapshot(id, {}, newKey());
    await write(id, 'echo A > a; touch b; rm -r d; echo new > n; ln -sfn b link; chmod 600 b');
    const second = await client.snapshot(id, {}, newKey());

    const diff = await client.diffVersions(first.id, second.id);

    expect(diff).toEqual({
      files: [
        { path: '/workspace/a', change: 'changed', bytes: 2 },
        { path: '/workspace/d/c', change: 'removed', bytes: 2 },
        { path: '/workspace/link', change: 'changed', bytes: 1 },
        { path: '/workspace/n', change: 'added', bytes: 4 },
      ],
      more: 0,
    });
    expect((await client.diffVersions(start, first.id)).files.map((f) => f.path)).toEqual([
      '/workspace/a',
      '/workspace/b',
      '/workspace/d/c',
      '/workspace/link',
    ]);
    await expect(client.diffVersions(first.id, 'ver_none')).rejects.toMatchObject({
      code: 'version_not_found',
    });
  });

  it('give the content of a file, and nothing behind a link', async () => {
    const { id } = await create();
    await write(id, 'mkdir d; printf "\\000\\377" > d/bytes; ln -s d way');
    const tree = join(dataDir, 'fake/sandboxes', id, 'workspace');
    symlinkSync('/etc/passwd', join(tree, 'passwd'));
    mkdirSync(join(tree, 'empty'));
    const version = await client.snapshot(id, {}, newKey());
    const read = (path: string) => client.readVersionFile(version.id, path);

    expect(await read('/workspace/d/bytes')).toEqual(Buffer.from([0, 255]));
    for (const [path, why] of [
      ['/workspace/passwd', 'passwd is a symbolic link'],
      ['/workspace/way/bytes', 'way is a symbolic link'],
      ['/workspace/../../../etc/passwd', 'bad name ".."'],
      ['/workspace/empty', 'a folder'],
      ['/workspace/d/bytes/more', 'bytes is not a folder'],
      ['/nowhere', 'not there'],
    ] as const) {
      await expect(read(path)).rejects.toMatchObject({
        code: 'invalid_request',
        message: `path: ${path}: ${why}`,
      });
    }
  });
});

/** What a server does from time to time, as it does it while a fork of `needed` is under way. */
async function sweep(needed: string): Promise<void> {
  const journal = new Journal(join(dataDir, 'journal.db'));
  const context: ServerContext = {
    settings: { ...defaultSettings, dataDir, apiKey: 'dak_1' },
    journal,
    archives: new Archives(dataDir),
    operations: new Operations(journal, log),
    outputGuard: new OutputGuard(defaultSettings.maxOutputBytes, log),
    driver: createTargets(driver),
    log,
  };
  const sandboxes = new Sandboxes(context);
  sandboxes.load();
  const request = { versionId: needed };
  const running = { key: 'running', kind: 'fork', sandbox: needed, digest: '', request };
  journal.beginOperation(running);
  await new Versions(context, sandboxes).sweep();
  journal.forgetOperation(running.key);
  journal.close();
}

describe('the sweep of versions', () => {
  it('drops what is past its end, but what a live sandbox or an operation refers to', async () => {
    const { id } = await create();
    const taken: string[] = [];
    for (const n of [1, 2, 3, 4]) {
      await write(id, `echo ${n} > data`);
      taken.push((await client.snapshot(id, { retentionS: 1 }, newKey())).id);
    }
    await forkOf(taken[0] ?? '');
    const later = Date.now() + DAY_S * 1000;
    jest.spyOn(Date, 'now').mockImplementation(() => later);

    await server.stop();
    await sweep(taken[1] ?? '');
    await start();

    // Made into a sandbox, needed by a fork, and what a sandbox was last found to be.
    const left = [taken[0], taken[1], taken[3]];
    expect(new Set(await driver.listVersions())).toEqual(new Set(left));
    expect((await client.listVersions()).versions.map((v) => v.id)).toEqual(left);
  });

  it('names a version by the key that it was taken under', async () => {
    const { id } = await create();

    const version = await client.snapshot(id, {}, { key: 'mine' });

    expect(version.id).toBe(versionIdOf('mine'));
  });
});
