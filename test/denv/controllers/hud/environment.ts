import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createConnection, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { ControllerCall } from '../../../../denv/controllers/controller';

const PYTHON = resolve(process.env['HUD_PYTHON'] ?? '.hud/venv/bin/python');
export const hudIsThere = existsSync(PYTHON);

export interface ServedEnvironment {
  port: number;
  /** A new folder: home, and workspace of an environment that has one. */
  folder: string;
  /** Every connection that was made by `connect`, the first one first. */
  sockets: Socket[];
  connect: () => Promise<Socket>;
  stop(): Promise<void>;
}

/** Serves an environment of examples/hud/envs by the real `hud` package on a loopback port. */
export async function serveEnvironment(
  file: string,
  more: Record<string, string> = {},
): Promise<ServedEnvironment> {
  const folder = await mkdtemp(join(tmpdir(), 'hud-env-'));
  const argv = ['-m', 'hud.environment.server', resolve('examples/hud/envs', file)];
  const child = spawn(PYTHON, [...argv, '--host', '127.0.0.1', '--port', '0'], {
    cwd: folder,
    env: {
      PATH: process.env['PATH'],
      HOME: folder,
      TMPDIR: folder,
      WORKSPACE_ROOT: join(folder, 'workspace'),
      HUD_TELEMETRY_ENABLED: 'false',
      ...more,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const stop = async () => {
    await ended(child);
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const port = await portOf(child);
    const sockets: Socket[] = [];
    const connect = async () => {
      const socket = await dial(port);
      sockets.push(socket);
      return socket;
    };
    return { port, folder, sockets, connect, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

function portOf(child: ChildProcess): Promise<number> {
  return new Promise((found, failed) => {
    let said = '';
    child.stderr?.on('data', (data: Buffer) => (said = `${said}${data.toString()}`.slice(-2000)));
    child.once('exit', (code) => failed(new Error(`the environment ended with ${code}: ${said}`)));
    const lines = createInterface({ input: child.stdout! }); // a pipe, see stdio
    lines.on('line', (line) => {
      const port = /^HUD_SERVE_PORT=(\d+)$/.exec(line)?.[1];
      if (port) found(Number(port));
    });
  });
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((done) => child.once('exit', done));
  child.kill('SIGTERM');
  const hard = setTimeout(() => child.kill('SIGKILL'), 5000);
  await exit;
  clearTimeout(hard);
}

export function dial(port: number): Promise<Socket> {
  return new Promise((connected, failed) => {
    const socket = createConnection({ host: '127.0.0.1', port });
    socket.once('error', failed);
    socket.once('connect', () => {
      socket.off('error', failed);
      connected(socket);
    });
  });
}

let calls = 0;

/** A call as the server makes it, with what became of it noted in `marks`. */
export function makeCall(
  method: string,
  params: Record<string, unknown> = {},
  more: Partial<ControllerCall> & { marks?: string[] } = {},
): ControllerCall {
  calls += 1;
  const { marks = [], ...rest } = more;
  return {
    callId: `call-${calls}`,
    method,
    params,
    timeoutS: 30,
    resetTimeoutOnProgress: false,
    signal: new AbortController().signal,
    sending: () => marks.push('sending'),
    sent: () => marks.push('sent'),
    ...rest,
  };
}
