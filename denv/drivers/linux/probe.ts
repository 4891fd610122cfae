import { randomBytes } from 'node:crypto';
import net from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Target } from '../../../contracts/denv';
import type { SandboxDriver } from '../driver';
import type { Cgroups } from './cgroups';
import type { Layout } from '../host/layout';

const image = { kind: 'host' } as const;
const caps = { cpus: 0.5, memoryMb: 64, pids: 32 };
const probeFile = '/workspace/probe';
const probeBytes = 16 * 2 ** 20;
const port = 8080;
const server =
  `require('node:net').createServer((s) => s.end('here')).listen(${port}, '127.0.0.1');` +
  'setTimeout(() => process.exit(), 10000)';

/**
 * Tries one small sandbox, its fork and a verifier container, and says what worked. The reason of what did not is in `notes`. Removes all of it again.
 */
export async function probeHost(
  driver: SandboxDriver,
  cgroups: Cgroups,
  layout: Layout,
): Promise<Target> {
  const sandbox = new ProbeSandbox(driver);
  const notes = ['image host: the host’s own /usr, read-only; not reproducible'];
  const holds = async (what: string, attempt: () => Promise<boolean>): Promise<boolean> => {
    try {
      if (await attempt()) return true;
      notes.push(`${what}: tried, and it did not hold`);
    } catch (error) {
      notes.push(`${what}: ${error instanceof Error ? error.message : String(error)}`);
    }
    return false;
  };
  try {
    await sandbox.create();
    const stdio = await holds('exec', () => sandbox.runsCommands());
    return {
      name: driver.name,
      missing: null,
      exec: stdio,
      attach: await holds('attach', () => sandbox.attaches()),
      userNamespaces: await holds('user namespaces', () => sandbox.makesUserNamespaces()),
      fork: (await holds('fork', () => sandbox.forksWithoutCopying())) ? 'O(1)' : 'none',
      memoryFork: false,
      egressDeny: await holds('egress denied', () => sandbox.hasOnlyLoopback()),
      caps: capsThatHold(cgroups.limits(`${layout.cgroup}/${sandbox.id}`)),
      gpu: false,
      stdio,
      publish: await holds('published port', () => sandbox.publishesPorts()),
      separateVerify: await holds('separate verify', () => sandbox.isVerifiedFromOutside()),
      images: ['host', 'dir', 'tar'],
      notes,
    };
  } finally {
    await sandbox.remove();
  }
}

/** The sandbox of a probe, and what can be tried with it. */
class ProbeSandbox {
  readonly id = `probe-${randomBytes(6).toString('hex')}`;
  private readonly childId = `${this.id}-child`;
  private readonly versionId = `${this.id}-version`;
  private base = '';

  constructor(private readonly driver: SandboxDriver) {}

  async create(): Promise<void> {
    this.base = (await this.driver.prepareBase(image, [])).base;
    const from = { kind: 'base', base: this.base } as const;
    await this.driver.create({ sandboxId: this.id, from, image, caps });
  }

  async remove(): Promise<void> {
    await this.driver.remove(this.id);
    await this.driver.remove(this.childId);
    await this.driver.removeVersion(this.versionId);
  }

  async runsCommands(): Promise<boolean> {
    return (await this.exec(this.id, 'echo', ['echo', 'hi'])) === 'hi\n';
  }

  async attaches(): Promise<boolean> {
    const spec = { argv: ['cat'], uid: 1000, cwd: '/', env: {} };
    const attached = await this.driver.attachExec(this.id, 'attach', spec);
    try {
      attached.stdin.end('hi');
      return (await text(attached.stdout)) === 'hi' && (await attached.ended()).kind === 'exited';
    } finally {
      await attached.end();
    }
  }

  async makesUserNamespaces(): Promise<boolean> {
    return (await this.exec(this.id, 'userns', ['unshare', '-U', 'echo', 'hi'])) === 'hi\n';
  }

  async hasOnlyLoopback(): Promise<boolean> {
    return showsOnlyLoopback(
      await this.exec(this.id, 'net', ['cat', '/proc/net/route', '/proc/net/dev']),
    );
  }

  async forksWithoutCopying(): Promise<boolean> {
    const { driver, id, childId, versionId } = this;
    const write = `head -c ${probeBytes} /dev/urandom > ${probeFile}`;
    await this.exec(id, 'write', ['sh', '-c', write]);
    await driver.snapshot(id, versionId, { stop: false });
    const before = await driver.freeBytes();
    await driver.create({ sandboxId: childId, from: { kind: 'version', versionId }, image, caps });
    const copied = before - (await driver.freeBytes());
    const size = await this.exec(childId, 'read', ['sh', '-c', `wc -c < ${probeFile}`]);
    return Number(size) === probeBytes && copied < probeBytes / 2;
  }

  async publishesPorts(): Promise<boolean> {
    const spec = { argv: ['node', '-e', server], uid: 1000, cwd: '/', env: {}, stdin: null };
    await this.driver.startExec(this.id, 'listen', spec);
    return (await readPort(await this.driver.publish(this.id, port, null))) === 'here';
  }

  async isVerifiedFromOutside(): Promise<boolean> {
    const { exitCode } = await this.driver.runContainer({
      containerId: this.id,
      base: this.base,
      image,
      argv: ['sh', '-c', 'test "$(id -u)" = 2000 && test -d /env/home && ! touch /env/probe'],
      uid: 2000,
      env: {},
      timeoutS: 30,
      caps,
      readAll: true,
      mounts: [{ source: this.driver.basePath(this.base), target: '/env', readOnly: true }],
    });
    return exitCode === 0;
  }

  private async exec(sandboxId: string, name: string, argv: string[]): Promise<string> {
    const spec = { argv, uid: 1000, cwd: '/workspace', env: {}, stdin: null };
    await this.driver.startExec(sandboxId, name, spec);
    const handle = await this.driver.openExec(sandboxId, name);
    if (!handle) throw new Error(`exec ${name} did not start`);
    await handle.ended();
    const { stdout } = await handle.output(64 * 1024);
    handle.release();
    return stdout.toString();
  }
}

function capsThatHold(limits: ReturnType<Cgroups['limits']>): Target['caps'] {
  return {
    cpus: ['50000', '50000 100000'].includes(limits.cpu ?? ''),
    memoryMb: limits.memory === `${caps.memoryMb * 2 ** 20}`,
    pids: limits.pids === `${caps.pids}`,
    diskMb: false,
  };
}

function showsOnlyLoopback(tables: string): boolean {
  const lines = tables.split('\n').filter((line) => line.trim() !== '');
  const routes = lines.findIndex((line) => line.startsWith('Inter-'));
  const interfaces = lines.filter((line) => /^\s*[^\s|]+:/.test(line));
  return routes === 1 && interfaces.length === 1 && /^\s*lo:/.test(interfaces[0] ?? '');
}

/** Reads what a listener says, once it is up. */
async function readPort(hostPort: number): Promise<string> {
  for (let tries = 0; tries < 200; tries += 1) {
    const said = await new Promise<string>((resolve) => {
      let text = '';
      const socket = net.connect({ port: hostPort, host: '127.0.0.1' });
      socket.on('data', (data) => (text += data.toString()));
      socket.on('error', () => resolve(text)).on('close', () => resolve(text));
    });
    if (said !== '') return said;
    await sleep(25);
  }
  return '';
}
