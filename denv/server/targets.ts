import type { Target } from '../../contracts/denv';
import type { ImageSource, SandboxDriver } from '../drivers/driver';
import { DenvError } from '../errors';

/** The drivers of a server as one: what a sandbox is made from says which of them it belongs to, for its whole life. */
export interface Targets extends SandboxDriver {
  /** The capability row of each target, earned on this host; asked for once. */
  rows(): Promise<Target[]>;
  /** @throws DenvError capability_missing when there is no target of that name */
  require(name: string): void;
}

/** The target that a source belongs to. */
export function targetOf(image: ImageSource): string {
  return image.kind === 'docker' || image.kind === 'tcp' ? image.kind : 'linux';
}

/**
 * Routes each call of the driver interface. Versions, bases and verifier containers are the first driver's: no other makes
 * any. A driver whose engine is not there only lists nothing.
 */
export function createTargets(main: SandboxDriver, others: SandboxDriver[] = []): Targets {
  const all = [main, ...others];
  const owners = new Map<string, SandboxDriver>();
  let probes: Promise<Target[]> | null = null;

  const ownerOf = (sandboxId: string) => owners.get(sandboxId) ?? main;
  const driverFor = (image: ImageSource) => {
    const name = targetOf(image);
    const found = name === 'linux' ? main : others.find((driver) => driver.name === name);
    if (found) return found;
    throw new DenvError('capability_missing', `target: this server has no ${name}`);
  };

  return {
    name: main.name,
    probe: () => main.probe(),
    freeBytes: () => main.freeBytes(),
    hasVersion: (versionId) => main.hasVersion(versionId),
    versionBytes: (versionId) => main.versionBytes(versionId),
    diff: (a, b, limit) => main.diff(a, b, limit),
    removeVersion: (versionId) => main.removeVersion(versionId),
    listVersions: () => main.listVersions(),
    versionPath: (versionId) => main.versionPath(versionId),
    basePath: (base) => main.basePath(base),
    runContainer: (spec) => main.runContainer(spec),
    removeContainer: (containerId) => main.removeContainer(containerId),
    rows: () => (probes ??= Promise.all(all.map((driver) => driver.probe()))),
    require(name) {
      if (all.some((driver) => driver.name === name)) return;
      const names = all.map((driver) => driver.name).join(', ');
      throw new DenvError(
        'capability_missing',
        `target: there is no target ${name}; this server has ${names}`,
      );
    },
    async open() {
      for (const driver of all) await driver.open();
      for (const driver of others) for (const id of await driver.list()) owners.set(id, driver);
    },
    async close() {
      for (const driver of all) await driver.close();
    },
    async shutdown() {
      for (const driver of all) await driver.shutdown();
    },
    prepareBase: (image, files) => driverFor(image).prepareBase(image, files),
    async create(spec) {
      const driver = driverFor(spec.image);
      owners.set(spec.sandboxId, driver);
      await driver.create(spec);
    },
    state: (id) => ownerOf(id).state(id),
    stop: (id) => ownerOf(id).stop(id),
    async remove(id) {
      await ownerOf(id).remove(id);
      owners.delete(id);
    },
    async list() {
      return (await Promise.all(all.map((driver) => driver.list()))).flat();
    },
    snapshot: (id, versionId, options) => ownerOf(id).snapshot(id, versionId, options),
    changedSince: (id, since) => ownerOf(id).changedSince(id, since),
    startExec: (id, execId, spec) => ownerOf(id).startExec(id, execId, spec),
    openExec: (id, execId) => ownerOf(id).openExec(id, execId),
    attachExec: (id, execId, spec) => ownerOf(id).attachExec(id, execId, spec),
    connect: (id, port) => ownerOf(id).connect(id, port),
    publish: (id, port, hostPort) => ownerOf(id).publish(id, port, hostPort),
  };
}
