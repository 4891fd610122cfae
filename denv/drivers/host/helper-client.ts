import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import path from 'node:path';
import { DenvError } from '../../errors';
import { connectUnix, exchange, HelperError } from './helper-socket';
import type { Reply } from './helper-socket';
import type { Layout } from './layout';
import { argumentsOf, findProgram, readOrNull, sleep } from './processes';

export interface SnapshotRequest {
  source: string;
  target: string;
  readOnly: boolean;
  /** Write out what is dirty before anything stands still. */
  flush: boolean;
  /** Directory of the cgroup to freeze meanwhile. */
  cgroup: string | null;
  /** Kill what is frozen instead of thawing it. */
  kill: boolean;
}

/** One process inside a sandbox: its network namespace is the sandbox's. */
export interface NamespaceOf {
  pid: number;
  start: string;
}

export interface HelperClient {
  /** Starts the helper, or adopts the one that runs. `restarted` tells that published ports have to be added again. */
  ensure(): Promise<{ restarted: boolean }>;
  createSubvolume(path: string): Promise<void>;
  /** Deleting what is not there is success. */
  deleteSubvolume(path: string): Promise<void>;
  makeReadOnly(path: string): Promise<void>;
  /** A writable copy of a tree, at once. @throws HelperError `exists` when the target is there */
  copy(source: string, target: string): Promise<void>;
  /** @throws HelperError `exists` when the target is there */
  snapshot(request: SnapshotRequest): Promise<{ flushMs: number | null; pausedMs: number | null }>;
  /** Whether a tree has changed since it was `since`, which it was made from or which was made from it; in doubt, yes. */
  changed(tree: string, since: string): Promise<{ changed: boolean; flushMs: number | null }>;
  /** Resolves when no tree work is under way. */
  drain(): Promise<void>;
  /** Gives an exec the input in its `stdin` file and then its end. Does nothing the second time. */
  feed(directory: string): Promise<void>;
  connect(where: NamespaceOf, port: number): Promise<Socket>;
  publish(id: string, where: NamespaceOf, port: number, hostPort: number | null): Promise<number>;
  unpublish(id: string): Promise<void>;
  quit(): Promise<void>;
  /** Stops watching over the helper, which goes on. */
  letGo(): void;
}

const script = path.join(__dirname, 'portd.py');
const sources = ['portd.py', 'trees.py', 'feeds.py'];
const startLimitMs = 15_000;

/** The Python that came with the system: one on PATH may live in a home directory and vanish. */
export function findPython(): string {
  const found = findProgram('python3', ['/usr/bin']);
  if (found) return found;
  throw new DenvError(
    'capability_missing',
    'the linux driver needs python3 for its host helper; on Debian: apt-get install python3-minimal',
  );
}

/**
 * A client of the host helper (portd.py) of one data directory. When the helper is gone it is started anew, `onRestart` adds
 * the published ports again, and what may be done twice is asked again.
 */
export function createHelperClient(
  layout: Layout,
  allowedUids: number[],
  onRestart: () => Promise<void>,
): HelperClient {
  const hash = createHash('sha256');
  for (const name of sources) hash.update(readFileSync(path.join(__dirname, name)));
  const version = hash.digest('hex').slice(0, 16);
  let starting: Promise<{ restarted: boolean }> | null = null;
  let watching: Socket | null = null;

  async function start(): Promise<{ restarted: boolean }> {
    const running = await hello();
    if (running === version) return { restarted: false };
    if (running !== null) await send({ op: 'quit' }).catch(() => undefined);
    const log = openSync(path.join(layout.runtimeDir, 'portd.log'), 'a', 0o600);
    try {
      const args = ['-I', '-S', '-B', script, layout.helperSocket, version, allowedUids.join(',')];
      const child = spawn(findPython(), args, {
        detached: true,
        cwd: '/',
        env: {},
        stdio: ['ignore', log, log],
      });
      child.on('error', () => undefined); // The wait below reports it.
      child.unref();
    } finally {
      closeSync(log);
    }
    const deadline = Date.now() + startLimitMs;
    while ((await hello()) !== version) {
      if (Date.now() > deadline) {
        const said = readOrNull(path.join(layout.runtimeDir, 'portd.log')) ?? '';
        throw new DenvError('internal', `the host helper did not start: ${said.slice(-500)}`);
      }
      await sleep(5);
    }
    return { restarted: true };
  }

  async function hello(): Promise<string | null> {
    try {
      return (await send({ op: 'hello' })).version as string;
    } catch {
      return null;
    }
  }

  function ensure(): Promise<{ restarted: boolean }> {
    starting ??= start()
      .then(watchOver)
      .finally(() => (starting = null));
    return starting;
  }

  /** Keeps one connection open: its end is the helper's, and published ports should not wait for the next request. */
  async function watchOver<T>(started: T): Promise<T> {
    if (watching) return started;
    const socket = await connectUnix(layout.helperSocket);
    socket.unref();
    watching = socket;
    socket.on('error', () => undefined); // `close` follows.
    socket.on('close', () => {
      if (watching !== socket) return;
      watching = null;
      // One that was told to quit has removed its socket; one that was killed has not.
      if (existsSync(layout.helperSocket)) void restart();
    });
    return started;
  }

  async function restart(): Promise<void> {
    try {
      const { restarted } = await ensure();
      if (restarted) await onRestart();
    } catch {
      // The next request tries again and reports why.
    }
  }

  function letGo(): void {
    const socket = watching;
    watching = null;
    socket?.destroy();
  }

  async function open(): Promise<Socket> {
    try {
      return await connectUnix(layout.helperSocket);
    } catch {
      const { restarted } = await ensure();
      if (restarted) await onRestart();
      return connectUnix(layout.helperSocket);
    }
  }

  async function send(request: object): Promise<Reply> {
    const socket = await connectUnix(layout.helperSocket);
    return exchange(socket, request).finally(() => socket.destroy());
  }

  async function ask(request: object): Promise<Reply> {
    const socket = await open();
    return exchange(socket, request).finally(() => socket.destroy());
  }

  /** For what may be done twice: a helper that dies in the middle is asked again, once. */
  async function askTwice<T>(attempt: () => Promise<T>, onDeath?: () => void): Promise<T> {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof DenvError) || error.code !== 'unavailable') throw error;
      onDeath?.();
      await ensure(); // Not before the old one is wholly gone.
      return attempt();
    }
  }

  /** The kernel makes a snapshot whole or not at all, so a target that is there after a death was made before it. */
  async function snapshot(request: SnapshotRequest) {
    let died = false;
    try {
      const reply = await askTwice(
        () => ask({ op: 'snapshot', ...request }),
        () => (died = true),
      );
      return {
        flushMs: reply.flushMs as number | null,
        pausedMs: reply.pausedMs as number | null,
      };
    } catch (error) {
      if (!died || !(error instanceof HelperError) || error.code !== 'exists') throw error;
      return { flushMs: null, pausedMs: null };
    }
  }

  async function connectOnce(where: NamespaceOf, port: number): Promise<Socket> {
    const socket = await open();
    try {
      await exchange(socket, { op: 'connect', ...where, port });
    } catch (error) {
      socket.destroy();
      throw error;
    }
    return socket;
  }

  return {
    ensure,
    async createSubvolume(at) {
      await ask({ op: 'subvolume', path: at });
    },
    async deleteSubvolume(at) {
      await askTwice(() => ask({ op: 'delete', path: at }));
    },
    async makeReadOnly(at) {
      await askTwice(() => ask({ op: 'readOnly', path: at }));
    },
    snapshot,
    async copy(source, target) {
      const still = { flush: false, cgroup: null, kill: false };
      await snapshot({ source, target, readOnly: false, ...still });
    },
    async changed(tree, since) {
      const reply = await askTwice(() => ask({ op: 'changed', tree, since }));
      return { changed: reply.changed as boolean, flushMs: reply.flushMs as number | null };
    },
    async drain() {
      await askTwice(() => ask({ op: 'drain' }));
    },
    async feed(directory) {
      await askTwice(() => ask({ op: 'feed', directory }));
    },
    connect: (where, port) => askTwice(() => connectOnce(where, port)),
    async publish(id, where, port, hostPort) {
      const reply = await askTwice(() => ask({ op: 'publish', id, ...where, port, hostPort }));
      return reply.hostPort as number;
    },
    async unpublish(id) {
      await askTwice(() => ask({ op: 'unpublish', id }));
    },
    letGo,
    async quit() {
      letGo();
      const pid = Number(readOrNull(`${layout.helperSocket}.lock`));
      await send({ op: 'quit' }).catch(() => undefined);
      while (pid > 0 && argumentsOf(pid).includes(layout.helperSocket)) await sleep(2);
    },
  };
}
