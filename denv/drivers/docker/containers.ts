import type Docker from 'dockerode';
import type { ContainerCreateOptions, ContainerInspectInfo } from 'dockerode';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { DenvError } from '../../errors';
import type { ImageSource, SandboxLiveness, SandboxSpec } from '../driver';
import { checkId } from '../host/layout';
import type { Engine } from './engine';

const sandboxLabel = 'denv.sandbox';
const ownerLabel = 'denv.owner';
const logTailBytes = 2000;

export interface StartSpec {
  sandboxId: string;
  /** The engine's own id of the image. */
  imageId: string;
  argv: string[] | null;
  env: Record<string, string>;
  caps: SandboxSpec['caps'];
  /** As in `docker run --volume`. */
  binds?: string[];
}

export type Containers = ReturnType<typeof createContainers>;

/**
 * The containers of one data directory, each named and labelled by its sandbox. A file for each sandbox tells whose they are
 * also while their engine does not answer.
 */
export function createContainers(engine: Engine, dataDir: string) {
  const noteDir = path.join(dataDir, 'sandboxes');
  mkdirSync(noteDir, { recursive: true, mode: 0o700 });
  const owner = createHash('sha256').update(realpathSync(dataDir)).digest('hex').slice(0, 12);
  const nameOf = (sandboxId: string) => `denv-${owner}-${checkId(sandboxId)}`;
  const noteOf = (sandboxId: string) => path.join(noteDir, checkId(sandboxId));

  /** The engine's own id of an image that it has. Images are never pulled here. */
  async function imageId(image: ImageSource): Promise<string> {
    if (image.kind !== 'docker') {
      throw new DenvError('invalid_request', `target docker takes no image ${image.kind}`);
    }
    const { ref } = image;
    const found = await engine.find(`image ${ref}`, (docker) => docker.getImage(ref).inspect());
    if (found) return found.Id;
    throw new DenvError(
      'image_not_found',
      `the Docker engine has no image ${ref}, and none is pulled by itself: docker pull ${ref}`,
    );
  }

  /** Makes and starts a container; what an earlier try left of it is removed first. */
  async function start(spec: StartSpec): Promise<void> {
    const name = nameOf(spec.sandboxId);
    await remove(spec.sandboxId);
    writeFileSync(noteOf(spec.sandboxId), '', { mode: 0o600 });
    await engine.ask(`container of sandbox ${spec.sandboxId}`, async (docker) => {
      const container = await docker.createContainer(
        toCreateOptions(spec, name, labels(spec.sandboxId)),
      );
      await container.start();
    });
  }

  const labels = (sandboxId: string) => ({ [sandboxLabel]: sandboxId, [ownerLabel]: owner });

  const inspect = (sandboxId: string): Promise<ContainerInspectInfo | null> =>
    engine.find(`sandbox ${sandboxId}`, (docker) =>
      docker.getContainer(nameOf(sandboxId)).inspect(),
    );

  async function state(sandboxId: string): Promise<SandboxLiveness> {
    const found = await inspect(sandboxId);
    if (!found) return { state: 'absent' };
    const oomKills = found.State.OOMKilled ? 1 : 0;
    if (found.State.Running) return { state: 'running', oomKills };
    const hostRestart = Date.parse(found.State.StartedAt) < readBootTime();
    return { state: 'stopped', oomKills, hostRestart };
  }

  async function stop(sandboxId: string): Promise<void> {
    await engine.find(`stopping sandbox ${sandboxId}`, (docker) =>
      docker.getContainer(nameOf(sandboxId)).stop({ t: 0 }),
    );
  }

  /** Removes a container and the volumes that its image asked for. Resolves when it is gone, whoever began to remove it. */
  async function remove(sandboxId: string): Promise<void> {
    await removeContainer(sandboxId);
    rmSync(noteOf(sandboxId), { force: true });
  }

  async function removeContainer(sandboxId: string): Promise<void> {
    const name = nameOf(sandboxId);
    const gone = engine.find(`removing sandbox ${sandboxId}`, async (docker) => {
      const container = docker.getContainer(name);
      const removed = container.wait({ condition: 'removed' }).catch(() => undefined);
      await container.remove({ force: true, v: true });
      await removed;
    });
    await gone;
    if ((await inspect(sandboxId)) === null) return;
    await engine.find(`removing sandbox ${sandboxId}`, (docker) =>
      docker.getContainer(name).wait({ condition: 'removed' }),
    );
  }

  /** The sandboxes that have a container; none where the engine does not answer. */
  async function listOfEngine(): Promise<string[]> {
    const filters = { label: [`${ownerLabel}=${owner}`] };
    try {
      const found = await engine.ask('sandboxes', (docker) =>
        docker.listContainers({ all: true, filters }),
      );
      return found.flatMap((container) => container.Labels[sandboxLabel] ?? []);
    } catch (error) {
      if (error instanceof DenvError && error.code === 'unavailable') return [];
      throw error;
    }
  }

  /** Every sandbox that has a container or had one made for it. */
  async function list(): Promise<string[]> {
    return [...new Set([...(await listOfEngine()), ...readdirSync(noteDir)])];
  }

  /** The last words of a container, both streams. */
  async function tail(sandboxId: string): Promise<string> {
    const log = await engine.find(`output of sandbox ${sandboxId}`, async (docker) => {
      const container = docker.getContainer(nameOf(sandboxId));
      return readLog(docker, await container.logs({ stdout: true, stderr: true, tail: 20 }));
    });
    return (log ?? '').slice(-logTailBytes).trim();
  }

  return { owner, imageId, start, inspect, state, stop, remove, list, listOfEngine, tail };
}

function toCreateOptions(
  { imageId, argv, env, caps, binds = [] }: StartSpec,
  name: string,
  labels: Record<string, string>,
): ContainerCreateOptions {
  const memory = caps.memoryMb * 2 ** 20;
  return {
    name,
    Image: imageId,
    Labels: labels,
    Env: Object.entries(env).map(([key, value]) => `${key}=${value}`),
    ...(argv ? { Cmd: argv } : {}),
    HostConfig: {
      // No interface but loopback: nothing is reached from inside, the host included. We come in through the namespace.
      NetworkMode: 'none',
      Memory: memory,
      MemorySwap: memory,
      NanoCpus: Math.round(caps.cpus * 1e9),
      PidsLimit: caps.pids,
      CapDrop: ['ALL'],
      SecurityOpt: ['no-new-privileges'],
      Init: true,
      Tmpfs: { '/tmp': `rw,exec,nosuid,nodev,mode=1777,size=${caps.memoryMb}m` },
      RestartPolicy: { Name: 'no' },
      LogConfig: { Type: 'json-file', Config: { 'max-size': '16m', 'max-file': '1' } },
      Binds: binds,
    },
  };
}

function readBootTime(): number {
  return Number(/^btime (\d+)$/m.exec(readFileSync('/proc/stat', 'utf8'))?.[1] ?? 0) * 1000;
}

/** Takes a log out of the frames that the engine sends it in: both streams, in the order of their writing. */
function readLog(docker: Docker, log: Buffer): Promise<string> {
  const frames = Readable.from([log]);
  const both = new PassThrough();
  docker.modem.demuxStream(frames, both, both);
  frames.on('end', () => both.end());
  return text(both);
}
