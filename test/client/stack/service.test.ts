import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isAlive, readPidFile } from '../../../client/stack/processes';
import { Service, ServiceFailedError } from '../../../client/stack/service';
import type { ServiceSpec } from '../../../client/stack/service';

describe('a supervised service', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'service-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  const spec = (script: string, over: Partial<ServiceSpec> = {}): ServiceSpec => ({
    name: 'worker',
    command: process.execPath,
    args: ['-e', script],
    env: process.env,
    logFile: join(dir, 'log'),
    pidFile: join(dir, 'pid'),
    isReady: async (log) => log.includes('up'),
    readyS: 20,
    graceS: 5,
    ...over,
  });
  const stays = `console.log('up'); setInterval(() => {}, 1000);`;
  const until = async (what: () => boolean) => {
    while (!what()) await sleep(20);
  };

  it('is started again when it is killed, and its log goes on', async () => {
    const service = new Service(spec(stays), () => {});
    try {
      await service.ready;
      const { pid } = service.state();

      process.kill(pid ?? 0, 'SIGKILL');
      await until(() => service.state().restarts === 1 && service.state().state === 'ready');

      expect(service.state()).toMatchObject({ restarts: 1, lastEnd: 'killed by SIGKILL' });
      expect(service.state().pid).not.toBe(pid);
      expect(readPidFile(join(dir, 'pid'))?.pid).toBe(service.state().pid);
      expect(await readFile(join(dir, 'log'), 'utf8')).toBe('up\nup\n');
    } finally {
      await service.stop();
    }
  });

  it('leaves neither process nor pid file when it is stopped', async () => {
    const service = new Service(spec(stays), () => {});
    await service.ready;
    const id = readPidFile(join(dir, 'pid'));

    await service.stop();

    expect(id && isAlive(id)).toBe(false);
    expect(existsSync(join(dir, 'pid'))).toBe(false);
    expect(service.state()).toMatchObject({ state: 'stopped', pid: null, restarts: 0 });
  });

  it('kills what does not end in its time of grace', async () => {
    const stubborn = `process.on('SIGTERM', () => {}); ${stays}`;
    const service = new Service(spec(stubborn, { graceS: 0.2 }), () => {});
    await service.ready;
    const id = readPidFile(join(dir, 'pid'));

    await service.stop();

    expect(id && isAlive(id)).toBe(false);
  });

  it('gives up on one that never comes up, with the end of its log', async () => {
    const service = new Service(spec(`console.log('no key'); process.exit(3)`), () => {});

    const error: unknown = await service.ready.catch((e: unknown) => e);

    expect(error).toBeInstanceOf(ServiceFailedError);
    expect(String(error)).toContain('worker does not come up (exit code 3); the end of');
    expect(String(error)).toContain('no key\n  no key\n  no key');
    await service.stop();
  });

  it('says when its program is not there', async () => {
    const service = new Service(spec('', { command: '/no/such/program' }), () => {});

    await expect(service.ready).rejects.toThrow('ENOENT');
    await service.stop();
  });

  it('ends one that is there and never answers', async () => {
    const deaf = `setInterval(() => {}, 1000);`;
    const service = new Service(spec(deaf, { readyS: 0.1 }), () => {});

    await expect(service.ready).rejects.toThrow('worker does not come up (killed by SIGTERM)');
    await service.stop();
  });
});
