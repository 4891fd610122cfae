import { closeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { execa } from 'execa';
import { detachedInto, openLog, readLog } from './log-file';
import { processIdOf, removePidFile, writePidFile } from './processes';
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

/** A service that does not come up: it ended by itself several times, or is there and does not answer. */
export class ServiceFailedError extends Error {
  override readonly name = 'ServiceFailedError';
}

const firstBackoffMs = 200;
const lastBackoffMs = 10_000;
/** A process that lived as long as this is started again after the first back-off when it ends. */
const settledMs = 30_000;
const triesBeforeReady = 3;

/**
 * Runs a program and starts it again whenever it ends, after 0.2 s, doubling to 10 s. Its output goes straight to its log
 * file and it has its own session, so neither a terminal's Ctrl-C nor the death of this process reaches it.
 */
export class Service {
  /** Resolves when it first answered. @throws ServiceFailedError when it never does */
  readonly ready: Promise<void>;
  private readonly firstReady = Promise.withResolvers<void>();
  private readonly stopping = new AbortController();
  private readonly running: Promise<void>;
  private readonly now: ServiceState;
  private process: Process | null = null;

  constructor(
    private readonly spec: ServiceSpec,
    private readonly onChange: () => void,
  ) {
    this.now = { name: spec.name, state: 'starting', pid: null, restarts: 0, lastEnd: null };
    this.ready = this.firstReady.promise;
    this.ready.catch(() => {}); // Whoever awaits it is told; nobody may be awaiting it yet.
    this.running = this.keepRunning();
  }

  state(): ServiceState {
    return { ...this.now };
  }

  /** Ends it for good. `now` does not wait for it to finish anything. */
  async stop(options?: { now: boolean }): Promise<void> {
    this.stopping.abort();
    this.process?.kill(options?.now ? 'SIGKILL' : 'SIGTERM');
    await this.running;
  }

  private async keepRunning(): Promise<void> {
    const { signal } = this.stopping;
    let backoffMs = firstBackoffMs;
    let everReady = false;
    for (let starts = 1; !signal.aborted; starts++) {
      const began = Date.now();
      const run = await this.runOnce();
      everReady ||= run.ready;
      if (signal.aborted) break;
      if (!everReady && starts >= triesBeforeReady) {
        this.firstReady.reject(new ServiceFailedError(this.failure(run.end)));
        break;
      }
      if (Date.now() - began > settledMs) backoffMs = firstBackoffMs;
      const restarts = this.now.restarts + 1;
      this.change({ state: 'waiting', pid: null, restarts, lastEnd: run.end });
      await sleep(backoffMs, undefined, { signal }).catch(() => {});
      backoffMs = Math.min(backoffMs * 2, lastBackoffMs);
    }
    this.change({ state: 'stopped', pid: null });
  }

  private async runOnce(): Promise<{ ready: boolean; end: string }> {
    const { logFile, pidFile } = this.spec;
    const { fd, offset } = openLog(logFile);
    const started = launch(this.spec, fd);
    closeSync(fd);
    if (started.pid === undefined) return { ready: false, end: endWords(await started) };
    this.process = started;
    writePidFile(pidFile, processIdOf(started.pid));
    this.change({ state: 'starting', pid: started.pid });
    const ready = await this.awaitReady(started, offset);
    if (ready) {
      this.change({ state: 'ready' });
      this.firstReady.resolve();
    }
    const end = endWords(await started);
    this.process = null;
    removePidFile(pidFile);
    return { ready, end };
  }

  private async awaitReady(started: Process, offset: number): Promise<boolean> {
    const { logFile, readyS } = this.spec;
    let over = false;
    void started.finally(() => (over = true));
    const until = Date.now() + readyS * 1000;
    while (!over && !this.stopping.signal.aborted) {
      if (await this.spec.isReady(readLog(logFile, offset))) return true;
      if (Date.now() > until) {
        started.kill('SIGTERM');
        return false;
      }
      await sleep(100);
    }
    return false;
  }

  private failure(end: string): string {
    const { name, logFile } = this.spec;
    const tail = readLog(logFile, 0).trim().split('\n').slice(-8).join('\n  ');
    return `${name} does not come up (${end}); the end of ${logFile}:\n  ${tail}`;
  }

  private change(next: Partial<ServiceState>): void {
    Object.assign(this.now, next);
    this.onChange();
  }
}

function launch({ command, args, env, graceS }: ServiceSpec, log: number) {
  return execa(command, args, {
    ...detachedInto(log),
    env,
    extendEnv: false,
    forceKillAfterDelay: graceS * 1000,
    reject: false,
  });
}

type Process = ReturnType<typeof launch>;

function endWords(result: Awaited<Process>): string {
  if (result.signal !== undefined) return `killed by ${result.signal}`;
  if (result.exitCode !== undefined) return `exit code ${result.exitCode}`;
  return result.originalMessage ?? 'it could not be started';
}
