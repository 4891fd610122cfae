import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { serve } from '@hono/node-server';
import pino from 'pino';
import { pack } from 'tar-stream';
import { createDenvClient, type DenvClient } from '../../denv/client';
import type { SandboxDriver } from '../../denv/drivers/driver';
import { DenvError } from '../../denv/errors';
import { execIdOf, sandboxIdOf } from '../../denv/ids';
import { type DenvServer, startDenvServer } from '../../denv/server/server';
import { createFakeDriver } from '../fakes/fake-driver';

let dataDir: string;
let driver: SandboxDriver;
let server: DenvServer;
let client: DenvClient;

async function start(
  settings: { maxSandboxes?: number; maxOutputBytes?: number } = {},
): Promise<void> {
  server = await startDenvServer({
    driver,
    log: pino({ level: 'silent' }),
    settings: { dataDir, apiKey: 'dak_1', ...settings },
  });
  client = createDenvClient({
    server: 'http://denv.test',
    apiKey: 'dak_1',
    fetch: (request) => server.fetch(request),
  });
}

beforeEach(() => {
  dataDir = mkdtempSync(join(tmpdir(), 'denv-server-unit-'));
  driver = createFakeDriver(join(dataDir, 'fake'));
});
afterEach(async () => {
  await server.stop();
  await driver.shutdown();
  rmSync(dataDir, { recursive: true, force: true });
});

async function packOf(name: string, text: string): Promise<Buffer> {
  const archive = pack();
  archive.entry({ name }, text);
  archive.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of archive) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

const create = (key: string) => client.createSandbox({ image: 'host' }, { key });
const isKnown = (key: string) =>
  client.getSandbox(sandboxIdOf(key)).then(
    () => true,
    () => false,
  );
const exec = (id: string, script: string, key: string) =>
  client.exec(id, { argv: ['sh', '-c', script] }, { key });

describe('the denv server', () => {
  it('runs a command in a sandbox and returns the kept outcome to the same key', async () => {
    await start();
    const { id } = await create('c');

    const first = await exec(id, 'echo x >> effects; cat effects', 'e');
    const second = await exec(id, 'echo x >> effects; cat effects', 'e');

    expect([first.stdout, second.stdout]).toEqual(['x\n', 'x\n']);
  });

  it('answers over_capacity past its limit, keeps nothing of it, and takes the key later', async () => {
    await start({ maxSandboxes: 1 });
    await create('a');

    await expect(create('b')).rejects.toMatchObject({ code: 'over_capacity', retryAfterS: 5 });
    await client.deleteSandbox(sandboxIdOf('a'));

    expect((await create('b')).state).toBe('running');
  });

  it('refuses a create on a full disk before anything is made', async () => {
    driver.freeBytes = () => Promise.resolve(500 * 1024 * 1024);
    await start();

    const refused = create('a');

    await expect(refused).rejects.toMatchObject({ code: 'disk_full' });
    await expect(refused).rejects.toThrow('only 500 MB free for sandbox data; 1024 MB are needed');
    expect(await driver.list()).toEqual([]);
  });

  it('rolls a create back that the driver failed, so the same key can be tried again', async () => {
    const real = driver.create.bind(driver);
    let failures = 1;
    driver.create = async (spec) => {
      await real(spec);
      failures -= 1;
      if (failures >= 0) throw new Error('the host hiccuped');
    };
    await start();

    await expect(create('a')).rejects.toMatchObject({ code: 'internal' });
    expect(await driver.list()).toEqual([]);

    expect((await create('a')).id).toBe(sandboxIdOf('a'));
  });

  it('deletes at once a sandbox whose create waits for its turn to start', async () => {
    const held: (() => void)[] = [];
    const real = driver.create.bind(driver);
    driver.create = async (spec) => {
      await new Promise<void>((resolve) => held.push(resolve));
      await real(spec);
    };
    await start();
    const others = Array.from({ length: 16 }, (_, n) => create(`held${n}`));
    while (held.length < 16) await new Promise((resolve) => setImmediate(resolve));
    const waiting = create('waiting');
    waiting.catch(() => undefined);
    while (!(await isKnown('waiting'))) await new Promise((resolve) => setImmediate(resolve));

    await client.deleteSandbox(sandboxIdOf('waiting'));

    await expect(waiting).rejects.toMatchObject({ code: 'sandbox_gone' });
    for (const letGo of held) letGo();
    await Promise.all(others);
    expect(held).toHaveLength(16);
  });

  it('leaves a failed child out of a fork and says why, and gives the others', async () => {
    const real = driver.create.bind(driver);
    let creates = 0;
    driver.create = (spec) => {
      creates += 1;
      return creates === 3 ? Promise.reject(new Error('no memory')) : real(spec);
    };
    await start();
    const { id } = await create('a');

    const reply = await client.fork(id, { count: 3 }, { key: 'f' });

    const errors = reply.children.flatMap((child) =>
      'error' in child ? [child.error.message] : [],
    );
    expect(errors).toEqual(['no memory']);
    expect(reply.children).toHaveLength(3);
    expect(await driver.list()).toHaveLength(3);
  });

  it.each([
    ['disk_full', new DenvError('disk_full', 'no room for what is dirty')],
    ['internal', new Error('syncfs: Input/output error')],
  ])(
    'fails a fork whose snapshot failed (%s): no child, and the key may try again',
    async (code, why) => {
      await start();
      const { id } = await create('a');
      const real = driver.snapshot.bind(driver);
      driver.snapshot = () => Promise.reject(why);

      await expect(client.fork(id, { count: 3 }, { key: 'f' })).rejects.toMatchObject({
        code,
        message: why.message,
      });
      expect(await driver.list()).toEqual([id]);
      expect((await client.listVersions()).versions).toEqual([]);
      driver.snapshot = real;

      expect((await client.fork(id, { count: 3 }, { key: 'f' })).children).toHaveLength(3);
    },
  );

  it('notes a sandbox whose processes ended as stopped, and refuses commands in it', async () => {
    await start();
    const { id } = await create('a');
    await driver.stop(id);

    await expect(exec(id, 'true', 'e')).rejects.toMatchObject({ code: 'sandbox_stopped' });

    expect((await client.getSandbox(id)).stopped).toMatchObject({
      by: 'inside',
      what: 'init_ended',
    });
  });

  it('removes what has no record when it starts', async () => {
    await start();
    const { id } = await create('a');
    await server.stop();
    rmSync(join(dataDir, 'journal.db'));
    rmSync(join(dataDir, 'journal.db-wal'), { force: true });

    await start();

    expect(await driver.list()).toEqual([]);
    await expect(client.getSandbox(id)).rejects.toMatchObject({ code: 'sandbox_not_found' });
  });

  it('renews a lease at each call by what was asked for, and anew when it starts again', async () => {
    await start();
    const { id } = await client.createSandbox({ image: 'host', leaseS: 60 }, { key: 'c' });
    const begun = Date.now();
    const now = jest.spyOn(Date, 'now');
    const leaseS = async () =>
      (Date.parse((await client.getSandbox(id)).leaseUntil) - begun) / 1000;

    now.mockReturnValue(begun + 20_000);
    await exec(id, 'true', 'e');
    const renewed = await leaseS();
    await server.stop();
    now.mockReturnValue(begun + 3_600_000);
    await start();

    expect(renewed).toBe(80);
    expect(await leaseS()).toBe(3660);
    now.mockRestore();
  });

  it('takes a file tree by its digest once it holds it, and the same request either way', async () => {
    await start();
    const tar = await packOf('main.txt', 'hello');
    const sha256 = createHash('sha256').update(tar).digest('hex');
    const byDigest = { image: 'host', files: [{ to: '/app', sha256 }] };
    const whole = { image: 'host', files: [{ to: '/app', tarBase64: tar.toString('base64') }] };

    await expect(client.createSandbox(byDigest, { key: 'a' })).rejects.toMatchObject({
      code: 'files_missing',
      details: { sha256: [sha256] },
    });
    const first = await client.createSandbox(whole, { key: 'a' });
    const again = await client.createSandbox(byDigest, { key: 'a' });
    const second = await client.createSandbox(byDigest, { key: 'b' });

    expect(again.id).toBe(first.id);
    expect(second.version).toBe(first.version);
  });

  it('takes a tree in pieces under its digest, as often as it is sent, and no other content', async () => {
    await start();
    const tar = await packOf('main.txt', 'hello');
    const sha256 = createHash('sha256').update(tar).digest('hex');
    const pieces = () => [tar.subarray(0, 700), tar.subarray(700)];
    const withTree = { image: 'host', files: [{ to: '/workspace/app', sha256 }] };

    const other = client.uploadTree(sha256, Readable.from([...pieces(), Buffer.from('more')]));
    await expect(other).rejects.toMatchObject({ code: 'invalid_request' });
    const torn = async function* () {
      yield tar.subarray(0, 700);
      throw new Error('torn');
    };
    await expect(client.uploadTree(sha256, torn())).rejects.toThrow('torn');
    expect(readdirSync(join(dataDir, 'archives'))).toEqual([]);
    await expect(client.createSandbox(withTree, { key: 'a' })).rejects.toMatchObject({
      code: 'files_missing',
    });
    await client.uploadTree(sha256, Readable.from(pieces()));
    await client.uploadTree(sha256, Readable.from(pieces()));

    const { id } = await client.createSandbox(withTree, { key: 'a' });
    expect(await exec(id, 'cat app/main.txt', 'e')).toMatchObject({ stdout: 'hello' });
    await expect(client.uploadTree('x', Readable.from([]))).rejects.toMatchObject({
      code: 'invalid_request',
    });
  });

  it('refuses to write more than it reads, in words that reach a client on a socket, and keeps nothing of it', async () => {
    await start();
    const { id } = await create('c');
    const listener = serve({ fetch: (request) => server.fetch(request), port: 0 });
    await once(listener, 'listening');
    const { port } = listener.address() as AddressInfo; // it listens on a port
    const overHttp = createDenvClient({ server: `http://127.0.0.1:${port}`, apiKey: 'dak_1' });
    const limit = 64 * 1024 * 1024;

    const write = overHttp.writeFile(id, '/a', Buffer.alloc(limit + 1), { key: 'w' });

    await expect(write).rejects.toMatchObject({
      code: 'invalid_request',
      message: `the body is larger than ${limit} bytes; send a larger tree by PUT /v1/trees and name it in a create`,
    });
    listener.close();

    await expect(client.operation('w')).rejects.toMatchObject({ code: 'operation_not_found' });
  }, 30_000);

  it('refuses a body without a length once more than the limit has come', async () => {
    await start();
    const { id } = await create('c');
    const piece = new Uint8Array(1024 * 1024);
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        sent += 1;
        controller.enqueue(piece);
      },
    });

    const response = await server.fetch(
      new Request(`http://denv.test/v1/envs/${id}/files?path=/a`, {
        method: 'PUT',
        body,
        duplex: 'half',
        headers: { authorization: 'Bearer dak_1', 'idempotency-key': 'k' },
      }),
    );

    expect(response.status).toBe(400);
    expect(sent).toBeLessThan(70);
  });

  it("kills what writes more than its share: a command, a sandbox's own command and a controller", async () => {
    await start({ maxOutputBytes: 100_000 });
    const flood = ['sh', '-c', 'yes & wait'];
    const service = await client.createSandbox({ image: 'host', command: flood }, { key: 'a' });
    const handle = await driver.openExec(service.id, execIdOf('a/command'));

    expect(await handle?.ended()).toEqual({ kind: 'killed' });
    expect((await client.getSandbox(service.id)).state).toBe('running');
    expect(await client.exec(service.id, { argv: flood }, { key: 'e' })).toMatchObject({
      exitCode: null,
      timedOut: false,
    });
    await expect(
      client.createSandbox(
        { image: 'host', controller: { kind: 'mcp-http', command: flood, port: 9 } },
        { key: 'b' },
      ),
    ).rejects.toThrow('the controller ended before it was ready; its last output: ');
  }, 20_000);

  it('lists sandboxes by owner', async () => {
    await start();
    await client.createSandbox({ image: 'host', labels: { owner: 'me' } }, { key: 'a' });
    await client.createSandbox({ image: 'host', labels: { owner: 'you' } }, { key: 'b' });

    const { sandboxes } = await client.listSandboxes({ owner: 'me' });

    expect(sandboxes.map((s) => s.id)).toEqual([sandboxIdOf('a')]);
  });

  it.each([
    ['POST', '/v1/sandboxes', '{', /the body is not JSON/],
    ['POST', '/v1/sandboxes', '{"image":1}', /image/],
    ['POST', '/v1/envs/x/exec', '{"argv":[]}', /argv/],
    ['GET', '/v1/nothing', undefined, /there is no GET \/v1\/nothing/],
    [
      'GET',
      '/v1/operations/none?wait=99',
      undefined,
      /no operation has the key none|wait: 0 to 60/,
    ],
  ])(
    'answers %s %s with %s in words that name what is wrong',
    async (method, path, body, words) => {
      await start();

      const response = await server.fetch(
        new Request(`http://denv.test${path}`, {
          method,
          body,
          headers: { authorization: 'Bearer dak_1', 'idempotency-key': 'k' },
        }),
      );

      expect(response.status).toBeGreaterThanOrEqual(400);
      expect(JSON.stringify(await response.json())).toMatch(words);
    },
  );

  it('needs a key for everything that changes something', async () => {
    await start();

    const response = await server.fetch(
      new Request('http://denv.test/v1/sandboxes', {
        method: 'POST',
        body: '{"image":"host"}',
        headers: { authorization: 'Bearer dak_1' },
      }),
    );

    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({
      error: { message: 'header Idempotency-Key: 1 to 512 characters are needed' },
    });
  });
});
