import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import pino from 'pino';
import { createDenvClient } from '../../denv/client';
import type { DenvClient } from '../../denv/client';
import { createDockerDriver } from '../../denv/drivers/docker/driver';
import { startDenvServer } from '../../denv/server/server';
import type { DenvServer } from '../../denv/server/server';
import { createFakeDriver } from '../fakes/fake-driver';
import { startEngine, whyNoEngine } from './drivers/docker/engine';
import type { TestEngine } from './drivers/docker/engine';
import { hudImage } from './drivers/docker/image';

const packages = resolve('.hud/packages');
const reason =
  whyNoEngine() ?? (existsSync(packages) ? null : 'no .hud/packages: npm run setup:hud');

(reason === null ? describe : describe.skip)(
  `HUD images on a Docker engine${reason === null ? '' : ` (skipped: ${reason})`}`,
  () => {
    let engine: TestEngine;
    let dataDir: string;
    let server: DenvServer;
    let client: DenvClient;
    let count = 0;
    /** Of what the set-up has made so far. */
    const undo: (() => unknown)[] = [];

    beforeAll(async () => {
      engine = await startEngine();
      undo.push(() => engine.stop());
      const made = hudImage(packages, resolve('examples/hud/envs/mcp_env.py'));
      await engine.importImage('denv-test-hud', made).finally(made.remove);
      dataDir = mkdtempSync(join(tmpdir(), 'denv-hud-docker-'));
      undo.push(() => rmSync(dataDir, { recursive: true, force: true }));
      await start();
      undo.push(async () => {
        const { sandboxes } = await client.listSandboxes();
        for (const { id } of sandboxes) await client.deleteSandbox(id);
        await server.stop();
        const driver = dockerDriver();
        await driver.open();
        await driver.shutdown();
      });
    }, 300_000);

    afterAll(async () => {
      for (const step of undo.reverse()) await step();
    }, 60_000);

    const dockerDriver = () => createDockerDriver({ dataDir, socketPath: engine.socketPath });

    async function start(): Promise<void> {
      server = await startDenvServer({
        driver: createFakeDriver(join(dataDir, 'fake')),
        others: [dockerDriver()],
        log: pino({ level: 'silent' }),
        settings: { dataDir, apiKey: 'dak_1' },
      });
      client = createDenvClient({
        server: 'http://denv.test',
        apiKey: 'dak_1',
        fetch: (request) => server.fetch(request),
      });
    }

    const key = () => `k${(count += 1)}`;
    const create = () =>
      client.createSandbox(
        {
          target: 'docker',
          image: 'denv-test-hud',
          caps: { cpus: 2, memoryMb: 1024, pids: 128 },
          controller: { kind: 'hud' },
        },
        { key: key() },
      );
    const call = async (
      id: string,
      method: 'hud/start' | 'hud/grade' | 'tools/call',
      params: object,
    ) => client.call(id, { method, params: { ...params } }, { key: key() });

    test('serve their task: started, worked on by its tools, graded, and gone', async () => {
      const sandbox = await create();
      const started = await call(sandbox.id, 'hud/start', { id: 'count_to', args: { target: 3 } });
      const bumped = await call(sandbox.id, 'tools/call', { name: 'bump', arguments: { by: 3 } });
      const graded = await call(sandbox.id, 'hud/grade', { answer: 'done' });
      await client.deleteSandbox(sandbox.id);

      expect(sandbox).toMatchObject({
        target: 'docker',
        reproducible: true,
        controller: { kind: 'hud', ready: true, hud: { name: 'counter' } },
      });
      expect(started.result).toMatchObject({ prompt: expect.stringContaining('exactly 3') });
      expect(bumped.result).toMatchObject({ content: [{ type: 'text', text: '3' }] });
      expect(graded.result).toMatchObject({ grade: { score: 1, info: { count: 3 } } });
      expect(await dockerDriver().list()).toEqual([]);
    }, 120_000);

    test('keep their task over a new server process', async () => {
      const { id } = await create();
      await call(id, 'hud/start', { id: 'count_to', args: { target: 2 } });
      await server.stop();
      await start();

      await call(id, 'tools/call', { name: 'bump', arguments: { by: 2 } });
      const graded = await call(id, 'hud/grade', { answer: 'done' });

      expect(graded.result).toMatchObject({ grade: { score: 1, info: { count: 2 } } });
    }, 120_000);

    test('have no exec and no snapshot, and say where there are some', async () => {
      const { id } = await create();

      await expect(client.exec(id, { argv: ['true'] }, { key: key() })).rejects.toMatchObject({
        code: 'capability_missing',
        message: expect.stringMatching(/^target docker has no exec.*target linux/),
      });
      await expect(client.snapshot(id, {}, { key: key() })).rejects.toMatchObject({
        code: 'capability_missing',
      });
    }, 120_000);
  },
);
