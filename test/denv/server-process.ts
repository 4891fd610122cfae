import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { createDenvClient, type DenvClient } from '../../denv/client';

const MAIN = resolve(__dirname, '../../dist/denv/server/main.js');
export const API_KEY = 'dak_test';

/** A real denv server on a data directory of its own, to be killed and started again; `end` leaves nothing of it. */
export class ServerProcess {
  dataDir = '';
  client!: DenvClient;
  address = '';
  private child: ChildProcess | null = null;
  private log: string[] = [];

  async start(): Promise<void> {
    if (this.dataDir === '') this.dataDir = mkdtempSync(join(tmpdir(), 'denv-server-'));
    const child = this.spawn(['--port', this.address === '' ? '0' : new URL(this.address).port]);
    this.child = child;
    child.stderr?.on('data', (data: Buffer) => this.log.push(data.toString()));
    if (!child.stdout) throw new Error('no stdout');
    for await (const line of createInterface({ input: child.stdout })) {
      const message = JSON.parse(line) as { ready?: boolean; address: string };
      if (!message.ready) continue;
      this.address = message.address;
      this.client = createDenvClient({ server: this.address, apiKey: API_KEY, pollS: 20 });
      return;
    }
    throw new Error(`the denv server did not start:\n${this.output()}`);
  }

  /** SIGKILL, or another signal, and the process is gone when it returns. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const child = this.child;
    this.child = null;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((done) => child.once('exit', done));
    child.kill(signal);
    await gone;
  }

  async killAndStart(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await this.kill(signal);
    await this.start();
  }

  /** Ends every sandbox process and mount, as `rollouts down` does. */
  async shutdown(): Promise<void> {
    await this.kill();
    const child = this.spawn(['--shutdown']);
    child.stderr?.on('data', (data: Buffer) => this.log.push(data.toString()));
    const code = await new Promise((done) => child.once('exit', done));
    if (code !== 0) throw new Error(`shutdown failed with ${String(code)}:\n${this.output()}`);
  }

  async end(): Promise<void> {
    await this.shutdown();
    rmSync(this.dataDir, { recursive: true, force: true });
  }

  output(): string {
    return this.log.join('');
  }

  private spawn(args: string[]): ChildProcess {
    return spawn(
      process.execPath,
      ['--disable-warning=ExperimentalWarning', MAIN, '--data', this.dataDir, ...args],
      {
        env: { ...process.env, DENV_API_KEY: API_KEY, DENV_DISK_GB: '8', NODE_OPTIONS: '' },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
  }
}

/** Until a condition holds; the failure says what was awaited. */
export async function until(
  what: string,
  check: () => Promise<boolean>,
  timeoutS = 20,
): Promise<void> {
  const deadline = Date.now() + timeoutS * 1000;
  while (!(await check())) {
    if (Date.now() > deadline) throw new Error(`not within ${timeoutS} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
