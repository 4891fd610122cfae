import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import type { Target } from '../../contracts/denv';
import { DenvError } from '../errors';
import type { ImageSource, SandboxDriver, SandboxSpec } from './driver';
import { bareTarget, lacking } from './no-capabilities';

/**
 * Target `tcp`: a control channel that somebody else started. Nothing is started or stopped here; a sandbox is a note of who
 * is attached to which address, so that one address serves one rollout at a time unless more are allowed.
 */
export function createTcpDriver(dataDir: string): SandboxDriver {
  const folder = join(dataDir, 'tcp');
  const noteOf = (sandboxId: string) => join(folder, sandboxId);
  const addressOf = (sandboxId: string): string | null => {
    try {
      return readFileSync(noteOf(sandboxId), 'utf8');
    } catch {
      return null; // Not attached, or not any more.
    }
  };
  const attached = () => {
    try {
      return readdirSync(folder);
    } catch {
      return []; // Nobody ever was.
    }
  };

  function attach({ sandboxId, image }: SandboxSpec): void {
    const { address, shared } = tcpImage(image);
    const others = attached().filter((id) => id !== sandboxId && addressOf(id) === address);
    if (others.length >= shared) {
      const who = shared === 1 ? others[0] : `${others.length} sandboxes`;
      throw new DenvError('over_capacity', `${address} is taken by ${who}`, { retryAfterS: 2 });
    }
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    writeFileSync(noteOf(sandboxId), address, { mode: 0o600 });
  }

  return {
    name: 'tcp',
    open: () => Promise.resolve(),
    close: () => Promise.resolve(),
    shutdown: () => Promise.resolve(),
    probe: () => Promise.resolve(row),
    freeBytes: () => Promise.resolve(Number.MAX_SAFE_INTEGER),
    prepareBase: (image) => {
      const { address } = tcpImage(image);
      return Promise.resolve({ base: `tcp:${address}`, digest: 'tcp', reproducible: false });
    },
    create: async (spec) => attach(spec),
    state: (sandboxId) =>
      Promise.resolve(
        addressOf(sandboxId) === null ? { state: 'absent' } : { state: 'running', oomKills: 0 },
      ),
    stop: () => Promise.resolve(),
    async remove(sandboxId) {
      rmSync(noteOf(sandboxId), { force: true });
    },
    list: () => Promise.resolve(attached()),
    connect: (sandboxId) => dial(addressOf(sandboxId), sandboxId),
    hasVersion: () => Promise.resolve(false),
    removeVersion: () => Promise.resolve(),
    listVersions: () => Promise.resolve([]),
    removeContainer: () => Promise.resolve(),
    snapshot: lacks('snapshots, and so no forks'),
    changedSince: lacks('snapshots'),
    versionBytes: lacks('versions'),
    diff: lacks('versions'),
    startExec: lacks('exec'),
    openExec: () => Promise.resolve(null),
    attachExec: lacks('exec'),
    publish: lacks('published ports'),
    runContainer: lacks('verifier containers'),
    versionPath: lacksNow('versions'),
    basePath: lacksNow('images'),
  };
}

const row: Target = {
  ...bareTarget('tcp'),
  notes: ['attaches to what somebody else runs: nothing is started, limited or stopped'],
};

function tcpImage(image: ImageSource): { address: string; shared: number } {
  if (image.kind === 'tcp') return image;
  throw new DenvError('invalid_request', `target tcp takes an address, no image ${image.kind}`);
}

function dial(address: string | null, sandboxId: string): Promise<net.Socket> {
  if (address === null) {
    return Promise.reject(new DenvError('sandbox_not_found', `${sandboxId} is not attached`));
  }
  const at = address.lastIndexOf(':');
  const host = address.slice(0, at).replace(/^\[(.*)\]$/, '$1');
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host, port: Number(address.slice(at + 1)), allowHalfOpen: true });
    socket.once('error', reject).once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

function missing(what: string): DenvError {
  return new DenvError('capability_missing', `target tcp has no ${what}`);
}

const { lacks, lacksNow } = lacking(missing);
