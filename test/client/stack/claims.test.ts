import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { takeLock } from '../../../client/stack/lock';
import { claimPort } from '../../../client/stack/ports';
import { isAlive, processIdOf } from '../../../client/stack/processes';
import { readStackState, writeStackState } from '../../../client/stack/state';
import { settingsFrom } from '../../../client/settings';
import { ensureDenvKey } from '../../../rollouts/home';
import { runInProcess } from '../../stores/other-process';

describe('what a stack claims for itself', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'claims-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  const temporal = { what: 'Temporal', flag: '--temporal-port' };

  it('names the port that is taken, and the flag', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    try {
      await expect(claimPort(port, temporal)).rejects.toThrow(
        `port ${port} for Temporal is taken by another program\nGive another one with --temporal-port N, or --temporal-port 0 for any that is free`,
      );
      expect(await claimPort(0, temporal)).toBeGreaterThan(0);
    } finally {
      server.close();
    }
  });

  it('takes another port for one that is taken, where that will do, and says so', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const said: string[] = [];
    try {
      const other = await claimPort(port, temporal, (line) => said.push(line));

      expect(other).not.toBe(port);
      expect(said).toEqual([`port ${port} for Temporal is taken; using port ${other}`]);
    } finally {
      server.close();
    }
  });

  it('gives no port to two services', async () => {
    const first = await claimPort(0, temporal);

    await expect(claimPort(first, temporal)).rejects.toThrow(`port ${first} for Temporal is taken`);
  });

  it('has one lock, which another process cannot take and which goes with its process', async () => {
    const take = `
      const { takeLock } = require('./client/stack/lock');
      console.log(takeLock(process.argv[1]) ? 'taken' : 'refused');`;
    const lock = takeLock(dir);

    expect(await runInProcess(take, [dir])).toBe('refused\n');
    lock?.release();
    expect(await runInProcess(take, [dir])).toBe('taken\n');
    const again = takeLock(dir);
    expect(again).not.toBeNull();
    again?.release();
  });

  it('tells a process from a later one with its pid', () => {
    const self = processIdOf(process.pid);

    expect(isAlive(self)).toBe(true);
    expect(isAlive({ ...self, startTime: '1' })).toBe(false);
    expect(isAlive({ pid: 2 ** 22 + 1, startTime: self.startTime })).toBe(false);
  });

  it('is not believed once its supervisor is dead', () => {
    const state = {
      supervisor: processIdOf(process.pid),
      startedAt: '2026-01-01T00:00:00.000Z',
      ready: true,
      temporal: { address: '127.0.0.1:1', namespace: 'default', ui: null },
      denv: { address: 'http://127.0.0.1:2', imageDirs: null },
      services: [],
    };
    writeStackState(dir, state);
    expect(readStackState(dir)).toEqual(state);

    writeStackState(dir, { ...state, supervisor: { pid: process.pid, startTime: '1' } });
    expect(readStackState(dir)).toBeNull();
  });

  it('makes its key once', () => {
    const { paths } = settingsFrom({ ROLLOUTS_HOME: dir });

    const key = ensureDenvKey(paths);

    expect(key).toMatch(/^dak_[0-9a-f]{48}$/);
    expect(ensureDenvKey(paths)).toBe(key);
  });
});

describe('settings', () => {
  it.each([
    [{ HOME: '/h' }, '/h/.local/state/denv-rollouts', '/h/.cache/denv-rollouts'],
    [
      { HOME: '/h', XDG_STATE_HOME: '/s', XDG_CACHE_HOME: '/c' },
      '/s/denv-rollouts',
      '/c/denv-rollouts',
    ],
    [{ HOME: '/h', ROLLOUTS_HOME: '/r' }, '/r', '/h/.cache/denv-rollouts'],
  ])('of %j', (env, home, toolCache) => {
    const settings = settingsFrom(env);

    expect(settings.paths.home).toBe(home);
    expect(settings.toolCache).toBe(toolCache);
    expect(settings.temporalAddress).toBeNull();
    expect(settings.taskQueue).toBe('rollouts');
  });
});
