import { execFileSync, spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import {
  createReadStream,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
} from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Readable } from 'node:stream';
import { findProgram } from '../../../../machine/programs';
import type { TestImage } from './image';

/** Why no engine can be started here; null when one can. */
export function whyNoEngine(): string | null {
  if (process.getuid?.() !== 0) return 'not root';
  const missing = ['dockerd', 'containerd', 'docker-init'].filter((name) => !findProgram(name));
  if (missing.length > 0) return `no ${missing.join(', ')} on PATH (Debian: docker.io)`;
  return existsSync('/usr/bin/python3') ? null : 'no /usr/bin/python3 to make an image of';
}

export interface TestEngine {
  socketPath: string;
  importImage(name: string, image: TestImage): Promise<void>;
  stop(): Promise<void>;
}

/**
 * A Docker engine of this test's own, with everything it keeps in one folder and no network: it touches neither iptables nor
 * forwarding. `stop` takes it all away.
 */
export async function startEngine(): Promise<TestEngine> {
  const dir = mkdtempSync(join(tmpdir(), 'denv-dockerd-'));
  // These two it makes wherever it is told to be.
  const made = ['/run/docker', '/run/containerd'].filter((place) => !existsSync(place));
  const cgroup = `denv-test-${dir.slice(-6)}`;
  const socketPath = join(dir, 'docker.sock');
  const log = openSync(join(dir, 'log'), 'w');
  const places = ['data-root', 'exec-root'].map((name) => `--${name}=${join(dir, name)}`);
  const child = spawn(
    'dockerd',
    [
      ...places,
      `--pidfile=${join(dir, 'pid')}`,
      `--host=unix://${socketPath}`,
      `--cgroup-parent=/${cgroup}`,
      '--bridge=none',
      '--iptables=false',
      '--ip-forward=false',
      '--ip-masq=false',
    ],
    { stdio: ['ignore', log, log], detached: true },
  );
  const stop = async (): Promise<void> => {
    await end(child);
    for (const mount of mountsBelow(dir)) execFileSync('umount', ['--lazy', mount]);
    rmSync(dir, { recursive: true, force: true });
    for (const place of made) rmSync(place, { recursive: true, force: true });
    removeCgroups(cgroup);
  };
  try {
    await answers(socketPath, child);
  } catch (error) {
    const said = readFileSync(join(dir, 'log'), 'utf8').slice(-1000);
    await stop();
    throw new Error(`dockerd does not start here: ${said}`, { cause: error });
  }
  const importImage = async (name: string, { tar, changes }: TestImage) => {
    const query = new URLSearchParams({ fromSrc: '-', repo: name });
    for (const change of changes) query.append('changes', change);
    const answer = await send(
      socketPath,
      'POST',
      `/images/create?${query.toString()}`,
      createReadStream(tar),
    );
    if (!answer.body.includes('sha256:')) throw new Error(`import of ${name}: ${answer.body}`);
  };
  return { socketPath, importImage, stop };
}

async function answers(socketPath: string, child: ChildProcess): Promise<void> {
  for (let tries = 0; tries < 300; tries += 1) {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}`);
    const answer = await send(socketPath, 'GET', '/_ping').catch(() => null);
    if (answer?.status === 200) return;
    await sleep(100);
  }
  throw new Error('it does not answer');
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'exit');
  child.kill('SIGTERM');
  await ended;
}

function send(socketPath: string, method: string, path: string, body?: Readable) {
  return new Promise<{ status: number; body: string }>((resolve, reject) => {
    const asked = request({ socketPath, method, path }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (more: string) => (text += more));
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body: text }));
    });
    asked.on('error', reject);
    if (body) body.on('error', reject).pipe(asked);
    else asked.end();
  });
}

const mountsBelow = (dir: string): string[] =>
  readFileSync('/proc/self/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' ')[1] ?? '')
    .filter((mount) => mount.startsWith(`${dir}/`))
    .reverse();

function removeCgroups(name: string): void {
  for (const hierarchy of ['', ...readdirSync('/sys/fs/cgroup')]) {
    const place = join('/sys/fs/cgroup', hierarchy, name);
    if (existsSync(place)) rmdirSync(place);
  }
}
