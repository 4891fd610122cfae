import { once } from 'node:events';
import { linkSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { createDockerDriver } from '../../../denv/drivers/docker/driver';
import type { SandboxDriver, SandboxSpec } from '../../../denv/drivers/driver';
import { startEngine, whyNoEngine } from './docker/engine';
import type { TestEngine } from './docker/engine';
import { serverImage } from './docker/image';

const reason = whyNoEngine();
const image = { kind: 'docker', ref: 'denv-test-python' } as const;
const caps = { cpus: 1, memoryMb: 128, pids: 64 };
let count = 0;
const newId = () => `sb-${(count += 1)}`;

(reason === null ? describe : describe.skip)(
  `the docker driver${reason === null ? '' : ` (skipped: ${reason})`}`,
  () => {
    let engine: TestEngine;
    let dataDir: string;
    let driver: SandboxDriver;
    let command: string[];
    /** Of what the set-up has made so far. */
    const undo: (() => unknown)[] = [];

    beforeAll(async () => {
      engine = await startEngine();
      undo.push(() => engine.stop());
      const made = serverImage();
      command = JSON.parse(made.changes[0]?.slice(4) ?? '') as string[];
      await engine.importImage(image.ref, made).finally(made.remove);
      dataDir = mkdtempSync(join(tmpdir(), 'denv-docker-'));
      undo.push(() => rmSync(dataDir, { recursive: true, force: true }));
      driver = driverOf(dataDir);
      await driver.open();
      undo.push(() => driver.shutdown());
      undo.push(async () => {
        for (const id of await driver.list()) await driver.remove(id);
      });
    }, 120_000);

    afterAll(async () => {
      for (const step of undo.reverse()) await step();
    }, 60_000);

    const driverOf = (dir: string) =>
      createDockerDriver({ dataDir: dir, socketPath: engine.socketPath });

    async function newSandbox(more: Partial<SandboxSpec> = {}): Promise<string> {
      const { base } = await driver.prepareBase(image, []);
      const sandboxId = newId();
      await driver.create({ sandboxId, from: { kind: 'base', base }, image, caps, ...more });
      return sandboxId;
    }

    /** What that Python prints in the sandbox. Waits until its server is up. */
    async function python(sandboxId: string, code: string, by = driver): Promise<string> {
      for (let tries = 0; ; tries += 1) {
        try {
          const socket = await by.connect(sandboxId, 8765);
          socket.end(code);
          return (await text(socket)).trim();
        } catch (error) {
          if ((error as { code?: string }).code !== 'unavailable' || tries > 200) throw error;
          await sleep(50);
        }
      }
    }

    async function until(condition: () => Promise<boolean>): Promise<void> {
      for (let tries = 0; !(await condition()); tries += 1) {
        if (tries > 200) throw new Error('it did not come to be');
        await sleep(50);
      }
    }

    test('has a row whose claims were tried', async () => {
      const row = await driver.probe();

      expect(row).toMatchObject({
        name: 'docker',
        missing: null,
        fork: 'none',
        egressDeny: true,
        caps: { cpus: true, memoryMb: true, pids: true, diskMb: false },
        exec: false,
        separateVerify: false,
      });
      expect(row.notes).toContain(
        'an image’s user has no capabilities and gains none, also when it is root',
      );
      expect(await driver.list()).toEqual([]);
    });

    test('knows an image by the digest that the engine gives it, and pulls none', async () => {
      const { base, digest } = await driver.prepareBase(image, []);

      expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
      expect(base).toBe(`docker:${digest}`);
      await expect(
        driver.prepareBase({ kind: 'docker', ref: 'nobody/nothing:1' }, []),
      ).rejects.toMatchObject({
        code: 'image_not_found',
        message: expect.stringContaining('docker pull nobody/nothing:1'),
      });
    });

    test('runs the image’s own command, reached on its loopback, with the environment given', async () => {
      const sandboxId = await newSandbox({ main: { argv: null, env: { TASK: 'a=b c' } } });

      expect(await python(sandboxId, 'print(os.environ["TASK"], os.environ["COLOUR"])')).toBe(
        'a=b c blue',
      );
      expect(await driver.state(sandboxId)).toEqual({ state: 'running', oomKills: 0 });
    });

    test('runs what it is told instead of the image’s command', async () => {
      const argv = [...command, 'instead'];
      const sandboxId = await newSandbox({ main: { argv, env: {} } });

      expect(await python(sandboxId, 'print(sys.argv[1:])')).toBe("['instead']");
    });

    test('lets nothing out: no interface but loopback, and not even the host is reached', async () => {
      const listener = createServer().listen(0, '0.0.0.0');
      await once(listener, 'listening');
      try {
        const sandboxId = await newSandbox();
        const { port } = listener.address() as AddressInfo; // a TCP server that listens has one
        const own = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
        const hosts = ['127.0.0.1', '192.0.2.1'].concat(
          own.flatMap(({ address, family, internal }) =>
            family === 'IPv4' && !internal ? [address] : [],
          ),
        );
        const look = `print([line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]])
for host in ${JSON.stringify(hosts)}:
    try: print(socket.create_connection((host, ${port}), 1))
    except OSError as error: print(type(error).__name__)`;

        expect((await python(sandboxId, look)).split('\n')).toEqual([
          "['lo']",
          'ConnectionRefusedError',
          ...hosts.slice(1).map(() => 'OSError'),
        ]);
      } finally {
        listener.close();
      }
    });

    test('takes every capability away, also from root, and writes only where it may', async () => {
      const sandboxId = await newSandbox();
      const look = `print(os.getuid(), [line.split()[1] for line in open("/proc/self/status") if line.startswith(("CapEff", "CapBnd", "NoNewPrivs"))])
open("/tmp/x", "w").write("x")
try: os.chown("/tmp/x", 5, 5)
except PermissionError: print("no chown")
try: open("/proc/sys/kernel/hostname", "w")
except OSError: print("no sysctl")`;

      expect((await python(sandboxId, look)).split('\n')).toEqual([
        "0 ['0000000000000000', '0000000000000000', '1']",
        'no chown',
        'no sysctl',
      ]);
    });

    test('holds the caps: processes past the limit are refused, memory past it kills', async () => {
      const sandboxId = await newSandbox({ caps: { cpus: 0.5, memoryMb: 64, pids: 16 } });
      const fork = `n = 0
try:
    while n < 100:
        if os.fork() == 0:
            import time; os.closerange(0, 100); time.sleep(60); os._exit(0)
        n += 1
except OSError: print("refused", n < 16)`;

      const forks = await python(sandboxId, fork);
      await python(sandboxId, 'x = bytearray(256 << 20)').catch(() => undefined);
      await until(async () => (await driver.state(sandboxId)).state === 'stopped');

      expect(forks).toBe('refused True');
      expect(await driver.state(sandboxId)).toEqual({
        state: 'stopped',
        oomKills: 1,
        hostRestart: false,
      });
    });

    test('of one that ended by itself says how, with its last words', async () => {
      const sandboxId = await newSandbox();
      await python(sandboxId, 'os.write(2, "no key given\\n".encode()); os._exit(3)');
      await until(async () => (await driver.state(sandboxId)).state === 'stopped');

      await expect(driver.connect(sandboxId, 8765)).rejects.toMatchObject({
        code: 'sandbox_stopped',
        message: `port 8765 of sandbox ${sandboxId}: its process ended with exit code 3; its last output: no key given`,
      });
    });

    test('of a port where nobody listens says so, and takes many connections at once', async () => {
      const sandboxId = await newSandbox();
      await python(sandboxId, 'print(1)');

      await expect(driver.connect(sandboxId, 9)).rejects.toMatchObject({ code: 'unavailable' });
      const said = await Promise.all(
        Array.from({ length: 20 }, (_, n) => python(sandboxId, `print(${n})`)),
      );
      expect(said).toEqual(Array.from({ length: 20 }, (_, n) => String(n)));
    });

    test('stops, removes and lists; each again is no error, and nor is a create over a leftover', async () => {
      const sandboxId = await newSandbox();
      const { base } = await driver.prepareBase(image, []);
      const spec = { sandboxId, from: { kind: 'base', base }, image, caps } as const;

      await driver.create({ ...spec, main: { argv: null, env: { TRY: 'two' } } });
      const second = await python(sandboxId, 'print(os.environ["TRY"])');
      await driver.stop(sandboxId);
      await driver.stop(sandboxId);
      const stopped = await driver.state(sandboxId);
      const listed = await driver.list();
      await driver.remove(sandboxId);
      await driver.remove(sandboxId);

      expect(second).toBe('two');
      expect(stopped).toMatchObject({ state: 'stopped', oomKills: 0 });
      expect(listed).toContain(sandboxId);
      expect(await driver.list()).not.toContain(sandboxId);
      expect(await driver.state(sandboxId)).toEqual({ state: 'absent' });
    });

    test('finds its sandboxes again in another process, and nobody else’s', async () => {
      const sandboxId = await newSandbox();
      const otherDir = mkdtempSync(join(tmpdir(), 'denv-docker-'));
      const again = driverOf(dataDir);
      const other = driverOf(otherDir);
      try {
        await Promise.all([again.open(), other.open()]);

        expect(await again.list()).toContain(sandboxId);
        expect(await python(sandboxId, 'print("still here")', again)).toBe('still here');
        expect(await other.list()).toEqual([]);
        expect(await other.state(sandboxId)).toEqual({ state: 'absent' });
      } finally {
        await Promise.all([again.close(), other.shutdown()]);
        rmSync(otherDir, { recursive: true });
      }
    });

    test('without its engine still knows what is its own, and says that it is unavailable', async () => {
      const sandboxId = await newSandbox();
      const dead = join(dataDir, 'dead.sock');
      const lost = createDockerDriver({ dataDir, socketPath: dead });
      // A socket file stays when its engine is killed.
      const listener = createServer().listen(dead);
      await once(listener, 'listening');
      linkSync(dead, `${dead}.kept`);
      listener.close();
      renameSync(`${dead}.kept`, dead);

      await expect(lost.state(sandboxId)).rejects.toMatchObject({ code: 'unavailable' });
      expect((await lost.probe()).missing).toMatch(/ECONNREFUSED/);
      expect(await lost.list()).toContain(sandboxId);
    });
  },
);
