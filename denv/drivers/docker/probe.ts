import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { pack } from 'tar-stream';
import type { Target } from '../../../contracts/denv';
import { bareTarget } from '../no-capabilities';
import { findPython } from '../host/programs';
import type { Containers } from './containers';
import type { Engine } from './engine';
import type { createPorts } from './ports';
import { probeScript } from './probe-script';

const caps = { cpus: 0.5, memoryMb: 64, pids: 32 };
const port = 8765;
const startTries = 200;

/** What the probe's process saw from inside. */
interface Seen {
  interfaces: string[];
  routes: number;
  egressDenied: boolean;
  cpu: string;
  memory: string;
  pids: string;
  capabilities: string;
  noNewPrivs: string;
  userNamespaces: boolean;
}

const none: Target = { ...bareTarget('docker'), images: ['docker'] };

/**
 * Tries one small container and says what held in it. Its image is empty but for the host's /usr, read-only, so none has
 * to be there. Removes all of it again.
 */
export async function probeEngine(
  engine: Engine,
  containers: Containers,
  ports: ReturnType<typeof createPorts>,
): Promise<Target> {
  const reason = engine.absent();
  if (reason !== null) return { ...none, missing: reason };
  // The same each time, so a probe that was cut off leaves nothing for good.
  const name = `denv-probe-${containers.owner}`;
  try {
    await cleanUp(engine, containers, name);
    await importEmpty(engine, name);
    const imageId = await containers.imageId({ kind: 'docker', ref: name });
    const argv = [findPython(), '-I', '-S', '-c', probeScript, String(port)];
    const binds = ['/usr:/usr:ro'];
    await containers.start({ sandboxId: name, imageId, argv, env: {}, caps, binds });
    const version = await engine.ask('version', (docker) => docker.version());
    return toTarget(await readSeen(ports, name), version.Version);
  } catch (error) {
    return { ...none, missing: error instanceof Error ? error.message : String(error) };
  } finally {
    await cleanUp(engine, containers, name).catch(() => undefined); // The row says why the engine does not work.
    ports.forget(name);
  }
}

function toTarget(seen: Seen, version: string): Target {
  const bare = seen.capabilities.replace(/0/g, '') === '' && seen.noNewPrivs === '1';
  return {
    ...none,
    egressDeny: seen.egressDenied && seen.routes === 0 && seen.interfaces.join() === 'lo',
    caps: {
      cpus: seen.cpu === '50000 100000',
      memoryMb: seen.memory === String(caps.memoryMb * 2 ** 20),
      pids: seen.pids === String(caps.pids),
      diskMb: false,
    },
    userNamespaces: seen.userNamespaces,
    notes: [
      `Docker engine ${version}; images are taken as they are there, none is pulled`,
      bare
        ? 'an image’s user has no capabilities and gains none, also when it is root'
        : 'capabilities: tried to take them away, and it did not hold',
      'reached by its port alone: no exec, no files, no snapshots; attach takes ports',
    ],
  };
}

/** Reads what the probe's process says, once it is up. */
async function readSeen(ports: ReturnType<typeof createPorts>, name: string): Promise<Seen> {
  let last: unknown;
  for (let tries = 0; tries < startTries; tries += 1) {
    try {
      return JSON.parse(await text(await ports.connect(name, port))) as Seen; // our own script's
    } catch (error) {
      last = error;
      if (error instanceof Error && 'code' in error && error.code !== 'unavailable') break;
    }
    await sleep(50);
  }
  throw last;
}

/** An image of empty directories, and the links that a merged /usr has. In `sbin` the engine puts its init. */
async function importEmpty(engine: Engine, name: string): Promise<void> {
  const tar = pack();
  for (const folder of ['usr', 'sbin', 'tmp', 'proc', 'sys', 'dev', 'etc']) {
    tar.entry({ name: folder, type: 'directory', mode: 0o755 });
  }
  for (const folder of ['bin', 'lib', 'lib64']) {
    tar.entry({ name: folder, type: 'symlink', linkname: `usr/${folder}` });
  }
  tar.finalize();
  const image = Readable.from([await buffer(tar)]);
  await engine.ask('probe image', async (docker) => {
    const progress: Promise<NodeJS.ReadableStream> = docker.importImage(image, { repo: name });
    await text(await progress); // It ends when the image is there.
  });
}

async function cleanUp(engine: Engine, containers: Containers, name: string): Promise<void> {
  await containers.remove(name);
  await engine.find('probe image', (docker) => docker.getImage(name).remove({ force: true }));
}
