import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { errnoOf } from '../../../machine/errno';
import { DenvError } from '../../errors';
import { readIfThere } from '../../../machine/files';
import { connectUnix, exchange } from './helper-socket';
import type { Reply } from './helper-socket';
import type { Layout } from './layout';
import { readArguments } from './processes';
import { findPython } from './programs';

const script = path.join(__dirname, 'portd.py');
const sources = ['portd.py', 'trees.py', 'feeds.py'];
const startLimitMs = 15_000;

/** The process of the host helper (portd.py) of one data directory. It outlives the server, and the next one adopts it. */
export class HelperProcess {
  private readonly version = digestSources();
  private starting: Promise<{ restarted: boolean }> | null = null;
  private watching: Socket | null = null;

  constructor(
    private readonly layout: Layout,
    private readonly allowedUids: number[],
    private readonly onRestart: () => Promise<void>,
  ) {}

  /** Starts the helper, or adopts the one that runs. `restarted` tells that published ports have to be added again. */
  ensure(): Promise<{ restarted: boolean }> {
    this.starting ??= this.start().finally(() => (this.starting = null));
    return this.starting;
  }

  /** A connection to the helper, which is started first where there is none. */
  async connect(): Promise<Socket> {
    try {
      return await connectUnix(this.layout.helperSocket);
    } catch (error) {
      if (!isNobodyThere(error)) throw error;
      await this.ensureWithPorts();
      return connectUnix(this.layout.helperSocket);
    }
  }

  /** Stops watching over the helper, which runs on. */
  letGo(): void {
    const socket = this.watching;
    this.watching = null;
    socket?.destroy();
  }

  /** Ends the helper and resolves when its process is gone. */
  async quit(): Promise<void> {
    this.letGo();
    const pid = Number(readIfThere(`${this.layout.helperSocket}.lock`));
    await this.tellToQuit();
    while (pid > 0 && readArguments(pid).includes(this.layout.helperSocket)) await sleep(2);
  }

  private async start(): Promise<{ restarted: boolean }> {
    const running = await this.hello();
    const restarted = running !== this.version;
    if (restarted) {
      if (running !== null) await this.tellToQuit();
      this.spawn();
      await this.waitUntilUp();
    }
    await this.watchOver();
    return { restarted };
  }

  private spawn(): void {
    const { runtimeDir, helperSocket } = this.layout;
    const log = openSync(path.join(runtimeDir, 'portd.log'), 'a', 0o600);
    try {
      const uids = this.allowedUids.join(',');
      const args = ['-I', '-S', '-B', script, helperSocket, this.version, uids];
      const child = spawn(findPython(), args, {
        detached: true,
        cwd: '/',
        env: {},
        stdio: ['ignore', log, log],
      });
      child.on('error', () => undefined); // The wait for its hello reports it.
      child.unref();
    } finally {
      closeSync(log);
    }
  }

  private async waitUntilUp(): Promise<void> {
    const deadline = Date.now() + startLimitMs;
    while ((await this.hello()) !== this.version) {
      if (Date.now() > deadline) {
        const log = readIfThere(path.join(this.layout.runtimeDir, 'portd.log')) ?? '';
        throw new DenvError('internal', `the host helper did not start: ${log.slice(-500)}`);
      }
      await sleep(5);
    }
  }

  /** The version of the helper that runs; null when none does. */
  private async hello(): Promise<string | null> {
    try {
      return (await this.send({ op: 'hello' })).version as string;
    } catch (error) {
      if (isNobodyThere(error) || isDeath(error)) return null;
      throw error;
    }
  }

  /** A helper that is gone, or that ends before it has answered, has quit as well. */
  private async tellToQuit(): Promise<void> {
    await this.send({ op: 'quit' }).catch((error: unknown) => {
      if (!isNobodyThere(error) && !isDeath(error)) throw error;
    });
  }

  /** Keeps one connection open: its end is the helper's, and published ports should not wait for the next request. */
  private async watchOver(): Promise<void> {
    if (this.watching) return;
    const socket = await connectUnix(this.layout.helperSocket);
    socket.unref();
    this.watching = socket;
    socket.on('error', () => undefined); // `close` follows.
    socket.on('close', () => {
      if (this.watching !== socket) return;
      this.watching = null;
      // One that was told to quit has removed its socket; one that was killed has not.
      if (!existsSync(this.layout.helperSocket)) return;
      this.ensureWithPorts().catch(() => undefined); // The next request tries again and reports why.
    });
  }

  private async ensureWithPorts(): Promise<void> {
    const { restarted } = await this.ensure();
    if (restarted) await this.onRestart();
  }

  private async send(request: object): Promise<Reply> {
    const socket = await connectUnix(this.layout.helperSocket);
    return exchange(socket, request).finally(() => socket.destroy());
  }
}

/** The helper's socket is not there, or was left by one that was killed. */
const isNobodyThere = (error: unknown): boolean =>
  ['ENOENT', 'ECONNREFUSED'].includes(errnoOf(error) ?? '');

/** The helper died with a request of ours in hand. */
export const isDeath = (error: unknown): boolean =>
  error instanceof DenvError && error.code === 'unavailable';

/** A helper of other sources is replaced when it is met. */
function digestSources(): string {
  const hash = createHash('sha256');
  for (const name of sources) hash.update(readFileSync(path.join(__dirname, name)));
  return hash.digest('hex').slice(0, 16);
}
