import { mkdirSync } from 'node:fs';
import { rm, statfs } from 'node:fs/promises';
import path from 'node:path';
import { DenvError } from '../../errors';
import type { SandboxDriver, SandboxSpec } from '../driver';
import { lacking } from '../no-capabilities';
import { HelperClient } from '../host/helper-client';
import { layoutOf } from '../host/layout';
import { createContainers } from './containers';
import { createEngine } from './engine';
import { createPorts } from './ports';
import { probeEngine } from './probe';

export interface DockerDriverOptions {
  dataDir: string;
  /** The unix socket of an engine of this host: see `socketPathOf`. */
  socketPath: string;
}

/**
 * Target `docker`: images of a Docker engine on this host whose own process (or `SandboxSpec.main`) serves the controller. A
 * container has no network but its loopback, no capabilities and its caps; its port is reached through its namespace, so root is
 * needed. There are no snapshots, and what is run in it is its own process alone.
 */
export function createDockerDriver({ dataDir, socketPath }: DockerDriverOptions): SandboxDriver {
  const ownDir = path.join(dataDir, 'docker');
  mkdirSync(ownDir, { recursive: true, mode: 0o700 });
  const layout = layoutOf(ownDir);
  const engine = createEngine(socketPath);
  const containers = createContainers(engine, ownDir);
  // Its own helper: one that another driver shuts down would take these connections along.
  const helper = new HelperClient(layout, [0], () => Promise.resolve());
  const ports = createPorts(containers, helper);

  async function shutdown(): Promise<void> {
    for (const id of await containers.listOfEngine()) await containers.stop(id);
    await helper.quit();
    await rm(layout.runtimeDir, { recursive: true, force: true });
  }

  async function create({ sandboxId, from, caps, main }: SandboxSpec): Promise<void> {
    if (from.kind === 'version') throw missing('versions');
    ports.forget(sandboxId);
    const imageId = from.base.replace(/^docker:/, '');
    await containers.start({ sandboxId, imageId, argv: null, env: {}, caps, ...main });
  }

  return {
    name: 'docker',
    async open() {
      mkdirSync(layout.runtimeDir, { recursive: true, mode: 0o700 });
    },
    close: async () => helper.letGo(),
    shutdown,
    probe: () => probeEngine(engine, containers, ports),
    async freeBytes() {
      const { bavail, bsize } = await statfs(ownDir);
      return bavail * bsize;
    },
    async prepareBase(image, files) {
      if (files.length > 0) throw missing('files over an image: build them into it');
      const digest = await containers.imageId(image);
      return { base: `docker:${digest}`, digest, reproducible: true };
    },
    create,
    state: containers.state,
    stop: containers.stop,
    async remove(sandboxId) {
      ports.forget(sandboxId);
      await containers.remove(sandboxId);
    },
    list: containers.list,
    connect: ports.connect,
    hasVersion: () => Promise.resolve(false),
    removeVersion: () => Promise.resolve(),
    listVersions: () => Promise.resolve([]),
    openExec: () => Promise.resolve(null),
    removeContainer: () => Promise.resolve(),
    snapshot: lacks('snapshots, and so no forks and no verify'),
    changedSince: lacks('snapshots'),
    versionBytes: lacks('versions'),
    diff: lacks('versions'),
    startExec: lacks('exec: what it does, its controller does'),
    attachExec: lacks('exec: attach to its port'),
    publish: lacks('published ports: attach to its port'),
    runContainer: lacks('verifier containers'),
    versionPath: lacksNow('versions'),
    basePath: lacksNow('start versions'),
  };
}

function missing(what: string): DenvError {
  const message = `target docker has no ${what}; target linux has them, with \`dir:\` or \`tar:\` of the image’s files`;
  return new DenvError('capability_missing', message);
}

const { lacks, lacksNow } = lacking(missing);
