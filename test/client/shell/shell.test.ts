import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import type { Duplex } from 'node:stream';
import { join } from 'node:path';
import { getRequestListener } from '@hono/node-server';
import pino from 'pino';
import { attach } from '../../../client/shell/attach';
import type { Attached } from '../../../client/shell/attach';
import type { DenvPlace } from '../../../client/api/connect';
import { runInFork } from '../../../client/shell/shell';
import type { Terminal } from '../../../client/shell/terminal';
import { createDenvClient, type DenvClient } from '../../../denv/client';
import type { SandboxDriver } from '../../../denv/drivers/driver';
import { type DenvServer, startDenvServer } from '../../../denv/server/server';
import { createFakeDriver } from '../../fakes/fake-driver';

describe('a shell in a fork', () => {
  let dataDir: string;
  let driver: SandboxDriver;
  let server: DenvServer;
  let http: Server;
  let streams: Duplex[];
  let place: DenvPlace;
  let denv: DenvClient;
  let version: string;
  let parent: string;

  beforeEach(async () => {
    dataDir = mkdtempSync(join(tmpdir(), 'shell-'));
    driver = createFakeDriver(join(dataDir, 'fake'));
    server = await startDenvServer({
      driver,
      log: pino({ level: 'silent' }),
      settings: { dataDir, apiKey: 'dak_1' },
    });
    const listener = getRequestListener((request) => server.fetch(request));
    http = createServer((request, response) => void listener(request, response));
    streams = [];
    http.on('upgrade', (request, socket, head) => {
      streams.push(socket);
      server.upgrade(request, socket, head);
    });
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    const address = http.address();
    if (address === null || typeof address === 'string') throw new Error('no port');
    place = { server: `http://127.0.0.1:${address.port}`, apiKey: 'dak_1' };
    denv = createDenvClient(place);
    parent = (await denv.createSandbox({ image: 'host' }, { key: 'c' })).id;
    await denv.exec(parent, { argv: ['sh', '-c', 'echo then > file'] }, { key: 'e1' });
    version = (await denv.snapshot(parent, {}, { key: 's' })).id;
    await denv.exec(parent, { argv: ['sh', '-c', 'echo now > file'] }, { key: 'e2' });
  });
  afterEach(async () => {
    http.closeAllConnections();
    await new Promise((closed) => http.close(closed));
    await server.stop();
    await driver.shutdown();
    rmSync(dataDir, { recursive: true, force: true });
  });

  /** Types the lines, then says that there are no more; keeps what it is shown. */
  function terminal(typed: string[], fed: (attached: Attached) => void = () => undefined) {
    const shown = { stdout: '', stderr: '', stopped: 0 };
    const one: Terminal = {
      tty: null,
      outputs: {
        stdout: async (data) => void (shown.stdout += data.toString()),
        stderr: async (data) => void (shown.stderr += data.toString()),
      },
      feed(attached) {
        void (async () => {
          for (const line of typed) await attached.send(Buffer.from(`${line}\n`));
          if (typed.length > 0) attached.eof();
          fed(attached);
        })();
        return () => void (shown.stopped += 1);
      },
    };
    return { one, shown };
  }

  const run = (on: Terminal, argv?: string[], stop = new AbortController().signal) =>
    runInFork({ denv }, place, on, { rolloutId: 'rollout/b/t/0', argv, stop, version });
  const left = async () => {
    const { sandboxes } = await denv.listSandboxes();
    return sandboxes.filter(({ state }) => state !== 'deleted').map(({ id }) => id);
  };

  it('runs what is typed on the files of the version, and leaves nothing behind', async () => {
    const { one, shown } = terminal(['cat file', 'echo no >&2', 'echo x > file', 'exit 7']);

    const { exitCode } = await run(one, ['sh']);

    expect(exitCode).toBe(7);
    expect(shown).toEqual({ stdout: 'then\n', stderr: 'no\n', stopped: 1 });
    expect(await left()).toEqual([parent]);
  });

  it('opens a shell where no command is given', async () => {
    const { one, shown } = terminal(['echo $((6 * 7))']);

    expect(await run(one)).toEqual({ exitCode: 0 });
    expect(shown.stdout).toBe('42\n');
  });

  it('deletes the fork when it is told to stop, whatever runs in it', async () => {
    const stopping = new AbortController();
    const { one, shown } = terminal([], () => stopping.abort());

    const { exitCode } = await run(one, ['sleep', '600'], stopping.signal);

    expect(exitCode).toBeNull();
    expect(shown.stopped).toBe(1);
    expect(await left()).toEqual([parent]);
  });

  it('deletes the fork when the command cannot be started', async () => {
    const { one } = terminal([]);
    // An argument that the contract refuses.
    const asked = run(one, []);

    await expect(asked).rejects.toMatchObject({ code: 'invalid_request' });
    expect(await left()).toEqual([parent]);
  });

  it('deletes the fork when the stream breaks off', async () => {
    const { one } = terminal([], () => streams.forEach((socket) => socket.destroy()));

    await expect(run(one, ['sleep', '600'])).rejects.toMatchObject({ code: 'unavailable' });

    expect(await left()).toEqual([parent]);
  });

  it('says that a version is gone', async () => {
    const asked = runInFork({ denv }, place, terminal([]).one, {
      rolloutId: 'rollout/b/t/0',
      stop: new AbortController().signal,
      version: 'ver_gone',
    });

    await expect(asked).rejects.toMatchObject({ code: 'version_not_found' });
  });

  it('is refused without the key', async () => {
    const outputs = terminal([]).one.outputs;

    const asked = attach({ ...place, apiKey: 'dak_2' }, parent, { argv: ['true'] }, outputs);

    await expect(asked).rejects.toMatchObject({ code: 'unauthorized' });
  });
});
