import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDockerDriver } from '../../../denv/drivers/docker/driver';
import { socketPathOf } from '../../../denv/drivers/docker/engine';
import type { SandboxDriver } from '../../../denv/drivers/driver';

describe('the docker driver without an engine', () => {
  let dataDir: string;
  const driverAt = (socketPath: string) => createDockerDriver({ dataDir, socketPath });

  beforeEach(() => (dataDir = mkdtempSync(join(tmpdir(), 'denv-docker-'))));
  afterEach(() => rmSync(dataDir, { recursive: true }));

  test.each([
    ['/nowhere/docker.sock', 'no Docker engine: there is no /nowhere/docker.sock'],
    [
      'tcp://10.0.0.1:2375',
      'tcp://10.0.0.1:2375 is no unix socket: only an engine of this host can be used',
    ],
  ])('at %s has a row that says why, no sandboxes, and takes none', async (socketPath, why) => {
    const driver = driverAt(socketPath);

    expect(await driver.probe()).toMatchObject({ name: 'docker', missing: why, egressDeny: false });
    expect(await driver.list()).toEqual([]);
    await expect(driver.prepareBase({ kind: 'docker', ref: 'x' }, [])).rejects.toMatchObject({
      code: 'unavailable',
      message: `image x: ${why}`,
    });
  });

  test.each<[string, (driver: SandboxDriver) => unknown]>([
    ['snapshots', (driver) => driver.snapshot('sb', 'ver', { stop: false })],
    ['exec', (driver) => driver.startExec('sb', 'x', {} as never)],
    ['exec', (driver) => driver.attachExec('sb', 'x', {} as never)],
    ['published ports', (driver) => driver.publish('sb', 1, null)],
    ['verifier containers', (driver) => driver.runContainer({} as never)],
    [
      'files over an image',
      (driver) => driver.prepareBase({ kind: 'docker', ref: 'x' }, [{} as never]),
    ],
    ['versions', async (driver) => driver.versionPath('ver')],
    [
      'versions',
      (driver) =>
        driver.create({
          sandboxId: 'sb',
          from: { kind: 'version', versionId: 'ver' },
          image: { kind: 'docker', ref: 'x' },
          caps: { cpus: 1, memoryMb: 64, pids: 8 },
        }),
    ],
  ])('has no %s, and names the target that has', async (what, act) => {
    await expect(act(driverAt('/nowhere/docker.sock'))).rejects.toMatchObject({
      code: 'capability_missing',
      message: expect.stringMatching(new RegExp(`^target docker has no ${what}.*target linux`)),
    });
  });
});

describe('socketPathOf', () => {
  test.each([
    [undefined, '/var/run/docker.sock'],
    ['', '/var/run/docker.sock'],
    ['unix:///run/user/1/docker.sock', '/run/user/1/docker.sock'],
    ['tcp://10.0.0.1:2375', 'tcp://10.0.0.1:2375'],
  ])('of DOCKER_HOST %s is %s', (dockerHost, expected) => {
    expect(socketPathOf(dockerHost)).toBe(expected);
  });
});
