import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pino from 'pino';
import { createDenvClient } from '../../denv/client';
import type { SandboxDriver } from '../../denv/drivers/driver';
import { startDenvServer } from '../../denv/server/server';
import { FakeDenv } from '../fakes/fake-denv';
import { createFakeDriver } from '../fakes/fake-driver';
import { denvSuite, type DenvSubject } from './denv-suite';

async function startFake(): Promise<DenvSubject> {
  const fake = new FakeDenv();
  fake.handlers.exec = async ({ argv }, { hang }) => {
    if (argv[0] !== 'hang') return undefined;
    await hang();
    return {
      exitCode: null,
      stdout: '',
      stderr: '',
      truncated: false,
      timedOut: false,
      durationS: 1,
    };
  };
  return {
    client: fake.client,
    append: (line) => ({ argv: [line] }),
    appendByCall: (line) => ({
      method: 'tools/call',
      params: { name: 'write', arguments: { line } },
    }),
    hang: () => ({ argv: ['hang'] }),
    pathIn: (_id, name) => `/workspace/${name}`,
    pathInVersion: (name) => `/workspace/${name}`,
    end: () => Promise.resolve(),
  };
}

async function startServer(): Promise<DenvSubject> {
  const dataDir = mkdtempSync(join(tmpdir(), 'denv-suite-'));
  const driver = createFakeDriver(join(dataDir, 'fake'));
  const server = await startDenvServer({
    driver: withVerifier(driver),
    log: pino({ level: 'silent' }),
    settings: { dataDir, apiKey: 'dak_1' },
  });
  const script = 'echo "$1" >> log; cat log';
  return {
    client: createDenvClient({
      server: 'http://denv.test',
      apiKey: 'dak_1',
      fetch: (request) => Promise.race([server.fetch(request), aborted(request.signal)]),
    }),
    append: (line) => ({ argv: ['sh', '-c', script, 'sh', line] }),
    appendByCall: (line) => ({
      method: 'tools/call',
      params: { name: 'bash', arguments: { command: `echo ${line} >> log; cat log` } },
    }),
    hang: () => ({ argv: ['sleep', '1000'] }),
    // The fake driver hides no part of the host: a path inside is one of the host.
    pathIn: (id, name) => join(dataDir, 'fake/sandboxes', id, 'workspace', name),
    pathInVersion: (name) => `/workspace/${name}`,
    async end() {
      await server.stop();
      await driver.shutdown();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** A caller that lets go of a request over HTTP hears no more of it. */
function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error)); // AbortController makes one
  });
}

/** A verifier that finds everything right. */
function withVerifier(driver: SandboxDriver): SandboxDriver {
  return {
    ...driver,
    async runContainer({ mounts }) {
      const folder = mounts.find(({ target }) => target === '/verdict')?.source ?? '';
      writeFileSync(join(folder, 'reward.txt'), '1\n');
      return { exitCode: 0, timedOut: false, outputTail: '', startMs: 1, runMs: 1 };
    },
  };
}

denvSuite('the fake denv client', startFake);
denvSuite('the denv server over the fake driver', startServer, {
  skipsVerify: process.getuid?.() === 0 ? null : 'needs root: its folder belongs to another user',
});
