import { spawn } from 'node:child_process';
import { closeSync, openSync, readSync, renameSync, statSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { endProcess, processIdOf, removePidFile, writePidFile } from './processes';
import type { ProcessId } from './processes';
import type { ServiceState } from './state';

export interface ServiceSpec {
  name: ServiceState['name'];
  command: string;
  args: string[];
  env: NodeJS.ProcessEnv;
  logFile: string;
  pidFile: string;
  /** Asked every 100 ms from its start: is it there? `log` is what this process has written so far. */
  isReady(log: string): Promise<boolean>;
  /** Seconds until a start counts as failed, and until a stop becomes a kill. */
  readyS: number;
  graceS: number;
}

export interface Service {
  readonly name: ServiceState['name'];
  state(): ServiceState;
  /** Resolves when it first answered. @throws ServiceFailedError when it never does */
  ready: Promise<void>;
  /** Ends it for good. `now` does not wait for it to finish anything. */
  stop(options?: { now: boolean }): Promise<void>;
}

/** A service that does not come up: it ended by itself several times, or is there and does not answer. */
export class ServiceFailedError extends Error {
  override readonly name = 'ServiceFailedError';
}

const firstBackoffMs = 200;
const lastBackoffMs = 10_000;
/** As long as this alive, and the next death starts from the first back-off again. */
const settledMs = 30_000;
const triesBeforeReady = 3;
const rotateBytes = 20 * 2 ** 20;

/**
 * Runs a program and starts it again whenever it ends, after 0.2 s, doubling to 10 s. Its output goes straight to its log
 * file and it has its own session, so neither a terminal's Ctrl-C nor the death of this process reaches it.
 */
export function startService(spec: ServiceSpec, onChange: () => void): Service {
  const state: ServiceState = {
    name: spec.name,
    state: 'starting',
    pid: null,
    restarts: 0,
    lastEnd: null,
  };
  const stopping = new AbortController();
  const firstReady = Promise.withResolvers<void>();
  firstReady.promise.catch(() => {}); // Whoever awaits it is told; nobody may be awaiting it yet.
  let current: { id: ProcessId; ended: Promise<string> } | null = null;
  const change = (next: Partial<ServiceState>) => {
    Object.assign(state, next);
    onChange();
  };

  async function runOnce(): Promise<{ ready: boolean; end: string }> {
    const { log, offset } = openLog(spec.logFile);
    const child = spawn(spec.command, spec.args, {
      env: spec.env,
      stdio: ['ignore', log, log],
      detached: true,
    });
    closeSync(log);
    const ended = new Promise<string>((resolve) => {
      child.once('error', (error) => resolve(error.message));
      child.once('exit', (code, signal) =>
        resolve(signal ? `killed by ${signal}` : `exit code ${code}`),
      );
    });
    if (child.pid === undefined) return { ready: false, end: await ended };
    const id = processIdOf(child.pid);
    current = { id, ended };
    writePidFile(spec.pidFile, id);
    change({ state: 'starting', pid: child.pid });
    const ready = await awaitReady(ended, offset);
    if (ready) {
      change({ state: 'ready' });
      firstReady.resolve();
    }
    const end = await ended;
    removePidFile(spec.pidFile);
    return { ready, end };
  }

  async function awaitReady(ended: Promise<string>, offset: number): Promise<boolean> {
    let over = false;
    void ended.then(() => (over = true));
    const until = Date.now() + spec.readyS * 1000;
    while (!over && !stopping.signal.aborted) {
      if (await spec.isReady(readLog(spec.logFile, offset))) return true;
      if (Date.now() > until) {
        if (current) await endProcess(current.id, 'SIGTERM', spec.graceS);
        return false;
      }
      await sleep(100);
    }
    return false;
  }

  async function keepRunning(): Promise<void> {
    let backoffMs = firstBackoffMs;
    let everReady = false;
    for (let starts = 1; !stopping.signal.aborted; starts++) {
      const began = Date.now();
      const run = await runOnce();
      current = null;
      everReady ||= run.ready;
      if (stopping.signal.aborted) break;
      if (!everReady && starts >= triesBeforeReady) {
        firstReady.reject(new ServiceFailedError(failure(run.end)));
        break;
      }
      if (Date.now() - began > settledMs) backoffMs = firstBackoffMs;
      change({ state: 'waiting', pid: null, restarts: state.restarts + 1, lastEnd: run.end });
      await sleep(backoffMs, undefined, { signal: stopping.signal }).catch(() => {});
      backoffMs = Math.min(backoffMs * 2, lastBackoffMs);
    }
    change({ state: 'stopped', pid: null });
  }

  function failure(end: string): string {
    const tail = readLog(spec.logFile, 0).trim().split('\n').slice(-8).join('\n  ');
    return `${spec.name} does not come up (${end}); the end of ${spec.logFile}:\n  ${tail}`;
  }

  const running = keepRunning();
  return {
    name: spec.name,
    state: () => ({ ...state }),
    ready: firstReady.promise,
    async stop(options) {
      stopping.abort();
      if (current) await endProcess(current.id, options?.now ? 'SIGKILL' : 'SIGTERM', spec.graceS);
      await running;
    },
  };
}

/** A log that has grown large is put aside, one generation of it. */
function openLog(path: string): { log: number; offset: number } {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  if (size > rotateBytes) renameSync(path, `${path}.1`);
  return { log: openSync(path, 'a', 0o600), offset: size > rotateBytes ? 0 : size };
}

/** The last 64 KiB at most of what was written past `offset`. */
function readLog(path: string, offset: number): string {
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0;
  const from = Math.max(offset, size - 65_536);
  if (size <= from) return '';
  const file = openSync(path, 'r');
  try {
    const buffer = Buffer.alloc(size - from);
    return buffer.subarray(0, readSync(file, buffer, 0, buffer.length, from)).toString();
  } finally {
    closeSync(file);
  }
}
