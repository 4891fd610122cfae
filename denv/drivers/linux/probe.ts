import { randomBytes } from 'node:crypto';
import net from 'node:net';
import { text } from 'node:stream/consumers';
import type { Target } from '../../../contracts/denv';
import type { SandboxDriver } from '../driver';
import type { Cgroups } from './cgroups';
import { whyNoMemoryFork } from './memory-fork';
import { sleep } from '../host/processes';
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
 * Lives through one small sandbox, its fork and a verifier container, and says what worked. What did not has its reason in
 * `notes`. Removes all of it again.
 */
export async function probeHost(
  driver: SandboxDriver,
  cgroups: Cgroups,
  layout: Layout,
): Promise<Target> {
  const id = `probe-${randomBytes(6).toString('hex')}`;
  const child = `${id}-child`;
  const notes: string[] = [
    'image host: the host’s own /usr, read-only; not reproducible',
    await whyNoMemoryFork(),
  ];

  async function shown(what: string, attempt: () => Promise<boolean>): Promise<boolean> {
    try {
      if (await attempt()) return true;
      notes.push(`${what}: tried, and it did not hold`);
    } catch (error) {
      notes.push(`${what}: ${error instanceof Error ? error.message : String(error)}`);
    }
    return false;
  }

  async function exec(sandboxId: string, name: string, argv: string[]): Promise<string> {
    const spec = { argv, uid: 1000, cwd: '/workspace', env: {}, stdin: null };
    await driver.startExec(sandboxId, name, spec);
    const handle = await driver.openExec(sandboxId, name);
    if (!handle) throw new Error(`exec ${name} did not start`);
    await handle.ended();
    const { stdout } = await handle.output(64 * 1024);
    handle.release();
    return stdout.toString();
  }

  try {
    const { base } = await driver.prepareBase(image, []);
    await driver.create({ sandboxId: id, from: { kind: 'base', base }, image, caps });
    const limits = cgroups.limits(`${layout.cgroup}/${id}`);
    const stdio = await shown(
      'exec',
      async () => (await exec(id, 'echo', ['echo', 'hi'])) === 'hi\n',
    );
    const attach = await shown('attach', async () => {
      const spec = { argv: ['cat'], uid: 1000, cwd: '/', env: {} };
      const attached = await driver.attachExec(id, 'attach', spec);
      try {
        attached.stdin.end('hi');
        return (await text(attached.stdout)) === 'hi' && (await attached.ended()).kind === 'exited';
      } finally {
        await attached.end();
      }
    });
    const userNamespaces = await shown(
      'user namespaces',
      async () => (await exec(id, 'userns', ['unshare', '-U', 'echo', 'hi'])) === 'hi\n',
    );
    const egressDeny = await shown('egress denied', async () =>
      hasOnlyLoopback(await exec(id, 'net', ['cat', '/proc/net/route', '/proc/net/dev'])),
    );
    const fork = await shown('fork', async () => {
      const write = `head -c ${probeBytes} /dev/urandom > ${probeFile}`;
      await exec(id, 'write', ['sh', '-c', write]);
      await driver.snapshot(id, `${id}-version`, { stop: false });
      const before = await driver.freeBytes();
      const from = { kind: 'version', versionId: `${id}-version` } as const;
      await driver.create({ sandboxId: child, from, image, caps });
      const copied = before - (await driver.freeBytes());
      const size = await exec(child, 'read', ['sh', '-c', `wc -c < ${probeFile}`]);
      return Number(size) === probeBytes && copied < probeBytes / 2;
    });
    const publish = await shown('published port', async () => {
      const argv = ['node', '-e', server];
      const spec = { argv, uid: 1000, cwd: '/', env: {}, stdin: null };
      await driver.startExec(id, 'listen', spec);
      return (await readPort(await driver.publish(id, port, null))) === 'here';
    });
    const separateVerify = await shown('separate verify', async () => {
      const { exitCode } = await driver.runContainer({
        containerId: id,
        base,
        image,
        argv: ['sh', '-c', 'test "$(id -u)" = 2000 && test -d /env/home && ! touch /env/probe'],
        uid: 2000,
        env: {},
        timeoutS: 30,
        caps,
        readAll: true,
        mounts: [{ source: driver.basePath(base), target: '/env', readOnly: true }],
      });
      return exitCode === 0;
    });
    return {
      name: driver.name,
      missing: null,
      exec: stdio,
      attach,
      userNamespaces,
      fork: fork ? 'O(1)' : 'none',
      memoryFork: false,
      egressDeny,
      caps: {
        cpus: ['50000', '50000 100000'].includes(limits.cpu ?? ''),
        memoryMb: limits.memory === `${caps.memoryMb * 2 ** 20}`,
        pids: limits.pids === `${caps.pids}`,
        diskMb: false,
      },
      gpu: false,
      stdio,
      publish,
      separateVerify,
      images: ['host', 'dir', 'tar'],
      notes,
    };
  } finally {
    await driver.remove(id);
    await driver.remove(child);
    await driver.removeVersion(`${id}-version`);
  }
}

function hasOnlyLoopback(tables: string): boolean {
  const lines = tables.split('\n').filter((line) => line.trim() !== '');
  const routes = lines.findIndex((line) => line.startsWith('Inter-'));
  const interfaces = lines.filter((line) => /^\s*[^\s|]+:/.test(line));
  return routes === 1 && interfaces.length === 1 && /^\s*lo:/.test(interfaces[0] ?? '');
}

/** What a listener says, once it is up. */
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
