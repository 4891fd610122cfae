import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { pack } from 'tar-stream';
import type {
  ExecEnd,
  ExecHandle,
  ExecSpec,
  FileArchive,
  ImageSource,
  SandboxDriver,
} from '../../denv/drivers/driver';

/** What every driver must do. Each driver's test calls it with how to make one, and with what it claims. */

export interface DriverUnderTest {
  /** A driver on one data directory; called again, it is another instance on the same one. */
  connect: () => SandboxDriver;
  image: ImageSource;
  claims: {
    /** Execs are held outside the process that started them. */
    execsOutliveTheirStarter: boolean;
    runContainer: boolean;
    publish: boolean;
  };
}

const caps = { cpus: 1, memoryMb: 256, pids: 64 };
let count = 0;
/** Ids are unique for ever, so every test takes new ones. */
export const newId = (what: string): string => `${what}-${(count += 1)}`;

export interface Ended {
  end: ExecEnd;
  stdout: string;
  stderr: string;
}

/** A few words for what the tests do again and again. */
export function actionsOn(driver: SandboxDriver, image: ImageSource) {
  const newSandbox = async (
    files: FileArchive[] = [],
    limits: Partial<typeof caps> = {},
  ): Promise<string> => {
    const { base } = await driver.prepareBase(image, files);
    const sandboxId = newId('sb');
    const from = { kind: 'base', base } as const;
    await driver.create({ sandboxId, from, image, caps: { ...caps, ...limits } });
    return sandboxId;
  };

  const newFork = async (versionId: string): Promise<string> => {
    const sandboxId = newId('fork');
    const from = { kind: 'version', versionId } as const;
    await driver.create({ sandboxId, from, image, caps });
    return sandboxId;
  };

  const start = async (sandboxId: string, argv: string[], spec: Partial<ExecSpec> = {}) => {
    const execId = newId('x');
    const whole = { argv, uid: 1000, cwd: '/workspace', env: {}, stdin: null, ...spec };
    await driver.startExec(sandboxId, execId, whole);
    const handle = await driver.openExec(sandboxId, execId);
    if (!handle) throw new Error(`exec ${execId} did not start`);
    return { execId, handle };
  };

  const endOf = async (handle: ExecHandle): Promise<Ended> => {
    const end = await handle.ended();
    const { stdout, stderr } = await handle.output(1 << 20);
    handle.release();
    return { end, stdout: stdout.toString(), stderr: stderr.toString() };
  };

  const exec = async (
    sandboxId: string,
    argv: string[],
    spec: Partial<ExecSpec> = {},
  ): Promise<Ended> => endOf((await start(sandboxId, argv, spec)).handle);

  const sh = (sandboxId: string, script: string, spec: Partial<ExecSpec> = {}): Promise<Ended> =>
    exec(sandboxId, ['sh', '-c', script], spec);

  return { newSandbox, newFork, start, endOf, exec, sh };
}

export type Actions = ReturnType<typeof actionsOn>;

/** Resolves with what a follower has got once it holds `wanted`. */
export function followUntil(handle: ExecHandle, offset: number, wanted: string): Promise<Followed> {
  return new Promise((resolve) => {
    let text = '';
    const stop = handle.follow(offset, (stdout, nextOffset) => {
      text += stdout.toString();
      if (!text.includes(wanted)) return;
      setImmediate(() => stop());
      resolve({ text, nextOffset });
    });
  });
}
export interface Followed {
  text: string;
  nextOffset: number;
}

type TarEntry = Partial<Parameters<ReturnType<typeof pack>['entry']>[0]> & { name: string };

export async function tarOf(entries: [TarEntry, string?][]): Promise<Buffer> {
  const tar = pack();
  for (const [header, content] of entries) tar.entry(header, content ?? '');
  tar.finalize();
  const chunks: Uint8Array[] = [];
  for await (const chunk of tar) chunks.push(chunk as Uint8Array);
  return Buffer.concat(chunks);
}

export function archiveOf(to: string, tar: Buffer): FileArchive {
  const sha256 = createHash('sha256').update(tar).digest('hex');
  return { to, sha256, open: () => Readable.from([tar]) };
}

export function describeDriver(under: () => DriverUnderTest, claims: DriverUnderTest['claims']) {
  const on = <T>(use: (driver: SandboxDriver, actions: Actions) => Promise<T>) => {
    const { connect, image } = under();
    const driver = connect();
    return use(driver, actionsOn(driver, image));
  };

  describe('trees', () => {
    test('a base has the files that were unpacked into it, with their modes', () =>
      on(async (driver, { newSandbox, sh }) => {
        const tar = await tarOf([[{ name: 'bin/hello', mode: 0o755 }, '#!/bin/sh\necho hello\n']]);

        const id = await newSandbox([archiveOf('/workspace/app', tar)]);

        expect(await sh(id, './app/bin/hello')).toMatchObject({ stdout: 'hello\n' });
        await driver.remove(id);
      }));

    test('the same image and files are the same base', () =>
      on(async (driver) => {
        const { image } = under();
        const tar = await tarOf([[{ name: 'same' }, 'same']]);
        const files = [archiveOf('/workspace', tar)];

        const bases = await Promise.all([1, 2, 3].map(() => driver.prepareBase(image, files)));

        expect(new Set(bases.map(({ base }) => base)).size).toBe(1);
        const other = await driver.prepareBase(image, []);
        expect(other.digest).not.toBe(bases[0]?.digest);
      }));

    test('an archive that would leave its place is refused, and no base is left of it', () =>
      on(async (driver) => {
        const { image } = under();
        const outside = mkdtempSync(path.join(tmpdir(), 'escape-'));
        try {
          for (const tar of [
            await tarOf([[{ name: '../../escaped' }, 'x']]),
            await tarOf([[{ name: `${outside}/escaped` }, 'x']]),
            await tarOf([
              [{ name: 'way', type: 'symlink', linkname: outside }],
              [{ name: 'way/escaped' }, 'x'],
            ]),
            await tarOf([
              [{ name: 'way', type: 'symlink', linkname: '/etc/passwd' }],
              [{ name: 'in', type: 'link', linkname: 'way' }],
            ]),
            await tarOf([[{ name: 'device', type: 'character-device', devmajor: 1, devminor: 3 }]]),
          ]) {
            const prepared = driver.prepareBase(image, [archiveOf('/workspace', tar)]);

            await expect(prepared).rejects.toMatchObject({ code: 'invalid_request' });
          }
          expect(() => readFileSync(path.join(outside, 'escaped'))).toThrow('ENOENT');
        } finally {
          rmSync(outside, { recursive: true });
        }
      }));
  });

  describe('execs', () => {
    let id: string;
    beforeAll(() => on(async (_, { newSandbox }) => void (id = await newSandbox())));
    afterAll(() => on((driver) => driver.remove(id)));

    test('an exec has an exit code and both streams', () =>
      on(async (_, { sh }) => {
        const ended = await sh(id, 'echo out; echo err >&2; exit 7');

        expect(ended).toEqual({
          end: { kind: 'exited', exitCode: 7 },
          stdout: 'out\n',
          stderr: 'err\n',
        });
      }));

    test('it gets its arguments, variables and directory', () =>
      on(async (_, { sh }) => {
        const script = 'pwd; echo "$GREETING"; echo "$HOME" >&2';

        const { stdout } = await sh(id, script, { env: { GREETING: 'good day' } });

        expect(stdout).toMatch(/workspace\ngood day\n$/);
      }));

    test('finite input is read to its end', () =>
      on(async (_, { exec }) => {
        const stdin = Buffer.alloc(300_000, 'abc');

        expect(await exec(id, ['wc', '-c'], { stdin })).toMatchObject({
          end: { kind: 'exited', exitCode: 0 },
          stdout: expect.stringMatching(/^\s*300000\n$/),
        });
        expect(await exec(id, ['cat'])).toMatchObject({ stdout: '' });
      }));

    test('output is binary-safe and cut at a limit, which is said', () =>
      on(async (_, { start }) => {
        const every =
          'i=0; while [ $i -lt 256 ]; do printf "\\\\$(printf %03o $i)"; i=$((i+1)); done';
        const { handle } = await start(id, ['sh', '-c', `${every}; { ${every}; } >&2`]);
        await handle.ended();

        const whole = await handle.output(1000);
        const cut = await handle.output(100);

        const expected = Buffer.from(Array.from({ length: 256 }, (_value, byte) => byte));
        expect(whole.stdout.equals(expected)).toBe(true);
        expect(whole).toMatchObject({ stderr: expected, truncated: false });
        expect(cut.stdout.equals(expected.subarray(0, 100))).toBe(true);
        expect(cut.truncated).toBe(true);
        expect(await handle.outputBytes()).toBe(512);
        handle.release();
      }));

    test.each([
      ['a program that is not there', ['no-such-program'], '/workspace', 127],
      ['a file that is no program', ['/etc/passwd'], '/workspace', 126],
      ['a directory that is not there', ['true'], '/no/such/directory', 126],
    ])('%s ends the exec with a code and a reason, in both forms', (_title, argv, cwd, exitCode) =>
      on(async (_, { exec }) => {
        for (const stdin of [null, Buffer.from('input')]) {
          const ended = await exec(id, argv, { cwd, stdin });

          expect(ended.end).toEqual({ kind: 'exited', exitCode });
          expect(ended.stderr.trim()).not.toBe('');
        }
      }),
    );

    test('kill ends the whole tree of an exec and nothing else', () =>
      on(async (_, { start, endOf, sh }) => {
        // Lengths that no other process on the host sleeps, where the driver does not hide those.
        const [kept, ...ended] = [0, 1, 2, 3].map((n) => `30${n}.${process.pid}`);
        const other = await start(id, ['sleep', `${kept}`]);
        const script = `sleep ${ended[0]} & (sleep ${ended[1]} & sleep ${ended[2]}) & echo up; wait`;
        const { handle } = await start(id, ['sh', '-c', script]);
        await followUntil(handle, 0, 'up');

        await handle.kill();

        expect((await endOf(handle)).end).toEqual({ kind: 'killed' });
        const left = await sh(id, 'cat /proc/[0-9]*/cmdline | tr "\\0" " "');
        for (const length of ended) expect(left.stdout).not.toContain(`sleep ${length}`);
        expect(left.stdout).toContain(`sleep ${kept}`);
        await other.handle.kill();
        other.handle.release();
      }));

    test('a background process lives on when its exec has ended', () =>
      on(async (_, { sh }) => {
        const script = '(sleep 0.5; echo late > late.txt) >/dev/null 2>&1 & echo started';

        const { stdout } = await sh(id, script);

        expect(stdout).toBe('started\n');
        const wait = 'until [ -s late.txt ]; do sleep 0.05; done; cat late.txt';
        expect(await sh(id, wait)).toMatchObject({ stdout: 'late\n' });
      }));

    test('an exec ends with its main process, also when a background process holds its output', () =>
      on(async (_, { sh }) => {
        for (const stdin of [null, Buffer.from('input')]) {
          const script = 'sleep 600 & echo $! > sleeps; echo started; exit 4';

          const ended = await sh(id, script, { stdin });

          expect(ended).toMatchObject({
            end: { kind: 'exited', exitCode: 4 },
            stdout: 'started\n',
          });
          // It was there when the exec had ended, and still has the output.
          expect(await sh(id, 'kill $(cat sleeps)')).toMatchObject({
            end: { kind: 'exited', exitCode: 0 },
          });
        }
      }));

    test('input that is not read, or not to its end, is no harm', () =>
      on(async (_, { exec, sh }) => {
        const stdin = Buffer.alloc(2_000_000, 'abcdefghi\n');

        expect(await exec(id, ['true'], { stdin })).toMatchObject({
          end: { kind: 'exited', exitCode: 0 },
        });
        expect(await sh(id, 'head -c 9; exit 3', { stdin })).toMatchObject({
          end: { kind: 'exited', exitCode: 3 },
          stdout: 'abcdefghi',
        });
        const echoed = await sh(id, 'tee /dev/null', { stdin: stdin.subarray(0, 1_000_000) });
        expect(echoed.stdout === stdin.toString('utf8', 0, 1_000_000)).toBe(true);
      }));

    test('a lasting stdin and a follower make a conversation', () =>
      on(async (_, { start }) => {
        const script = 'while read -r line; do echo "got $line"; done';
        const { handle } = await start(id, ['sh', '-c', script], { stdin: 'pipe' });

        await handle.write(Buffer.from('one\n'));
        const first = await followUntil(handle, 0, 'got one\n');
        await handle.write(Buffer.from('two\n'));
        const second = await followUntil(handle, first.nextOffset, 'got two\n');

        expect(first.text).toBe('got one\n');
        expect(second.text).toBe('got two\n');
        await handle.kill();
        handle.release();
      }));

    test('an attached exec has streams both ways, apart and binary-safe, and an exit code', () =>
      on(async (driver) => {
        const script = 'cat; echo err >&2; exit 7';
        const spec = { argv: ['sh', '-c', script], uid: 1000, cwd: '/workspace', env: {} };
        const sent = randomBytes(1_000_000);

        const exec = await driver.attachExec(id, newId('a'), spec);
        const said = Promise.all([buffer(exec.stdout), buffer(exec.stderr)]);
        exec.stdin.end(sent);
        const [stdout, stderr] = await said;

        expect(stdout.equals(sent)).toBe(true);
        expect(stderr.toString()).toBe('err\n');
        expect(await exec.ended()).toEqual({ kind: 'exited', exitCode: 7 });
        await exec.end();
      }));

    test('the end of an attached exec is the end of its whole tree', () =>
      on(async (driver, { sh }) => {
        const [first, second] = [1, 2].map((n) => `31${n}.${process.pid}`);
        const script = `sleep ${first} & echo up; sleep ${second}`;
        const spec = { argv: ['sh', '-c', script], uid: 1000, cwd: '/workspace', env: {} };
        const exec = await driver.attachExec(id, newId('a'), spec);
        await once(exec.stdout, 'data');

        await exec.end();

        expect(await exec.ended()).toEqual({ kind: 'killed' });
        const left = await sh(id, 'cat /proc/[0-9]*/cmdline | tr "\\0" " "');
        for (const length of [first, second]) expect(left.stdout).not.toContain(`sleep ${length}`);
      }));

    test('an exec that was never started cannot be opened; one that ended can, until it is removed', () =>
      on(async (driver, { start }) => {
        const { execId, handle } = await start(id, ['sh', '-c', 'exit 5']);
        await handle.ended();

        expect(await driver.openExec(id, 'never')).toBeNull();
        expect(await (await driver.openExec(id, execId))?.ended()).toEqual({
          kind: 'exited',
          exitCode: 5,
        });
        await handle.remove();
        expect(await driver.openExec(id, execId)).toBeNull();
      }));

    if (claims.execsOutliveTheirStarter) {
      test('another driver instance opens a running exec, talks to it and reads all of it', () =>
        on(async (_, { start }) => {
          const script = 'while read -r line; do echo "got $line"; done';
          const { execId, handle } = await start(id, ['sh', '-c', script], { stdin: 'pipe' });
          await handle.write(Buffer.from('one\n'));
          const { nextOffset } = await followUntil(handle, 0, 'got one\n');
          handle.release();

          const other = await under().connect().openExec(id, execId);
          await other?.write(Buffer.from('two\n'));
          const { text } = await followUntil(other as ExecHandle, nextOffset, 'got two\n');

          expect(text).toBe('got two\n');
          expect((await other?.output(100))?.stdout.toString()).toBe('got one\ngot two\n');
          await other?.kill();
          expect(await other?.ended()).toEqual({ kind: 'killed' });
          other?.release();
        }));
    }
  });

  describe('snapshots', () => {
    test('a fork has what was written before the snapshot, and nothing later on either side', () =>
      on(async (driver, { newSandbox, newFork, sh }) => {
        const id = await newSandbox();
        const versionId = newId('ver');
        await sh(id, 'echo before > data; mkdir -p deep/er; echo kept > deep/er/file');

        const timings = await driver.snapshot(id, versionId, { stop: false });
        await sh(id, 'echo after > data');
        const fork = await newFork(versionId);

        expect(await driver.hasVersion(versionId)).toBe(true);
        expect(timings.pausedMs).not.toBeNull();
        expect(await sh(fork, 'cat data deep/er/file')).toMatchObject({ stdout: 'before\nkept\n' });
        await sh(fork, 'echo child > data');
        expect(await sh(id, 'cat data')).toMatchObject({ stdout: 'after\n' });
        const tree = driver.versionPath(versionId);
        expect(readFileSync(path.join(tree, 'workspace/data'), 'utf8')).toBe('before\n');
        for (const sandboxId of [id, fork]) await driver.remove(sandboxId);
        await driver.removeVersion(versionId);
        expect(await driver.hasVersion(versionId)).toBe(false);
      }));

    test('with stop, every process is ended, its execs were killed, and the tree can be taken again', () =>
      on(async (driver, { newSandbox, newFork, start, endOf, sh }) => {
        const id = await newSandbox();
        await sh(id, 'echo data > data');
        const { handle } = await start(id, ['sleep', '300']);
        const [first, second] = [newId('ver'), newId('ver')];

        await driver.snapshot(id, first, { stop: true });

        expect((await endOf(handle)).end).toEqual({ kind: 'killed' });
        expect(await driver.state(id)).toMatchObject({ state: 'stopped', hostRestart: false });
        await expect(sh(id, 'true')).rejects.toMatchObject({ code: 'sandbox_stopped' });
        expect(await driver.snapshot(id, second, { stop: false })).toMatchObject({
          pausedMs: null,
        });
        const fork = await newFork(second);
        expect(await sh(fork, 'cat data')).toMatchObject({ stdout: 'data\n' });
        for (const sandboxId of [id, fork]) await driver.remove(sandboxId);
        for (const versionId of [first, second]) await driver.removeVersion(versionId);
      }));

    test('the same version id keeps its first tree', () =>
      on(async (driver, { newSandbox, sh }) => {
        const id = await newSandbox();
        const versionId = newId('ver');
        await sh(id, 'echo first > data');
        await driver.snapshot(id, versionId, { stop: false });
        await sh(id, 'echo second > data');

        await driver.snapshot(id, versionId, { stop: false });

        const file = path.join(driver.versionPath(versionId), 'workspace/data');
        expect(readFileSync(file, 'utf8')).toBe('first\n');
        await driver.remove(id);
        await driver.removeVersion(versionId);
      }));
  });

  describe('what has changed', () => {
    const since = (versionId: string) => ({ kind: 'version', versionId }) as const;

    test('is told since the start, since a version, in a fork and of a stopped sandbox', () =>
      on(async (driver, { newSandbox, newFork, sh }) => {
        const { base } = await driver.prepareBase(under().image, []);
        const id = await newSandbox();
        const [first, second] = [newId('ver'), newId('ver')];
        const changed = async (
          sandboxId: string,
          tree: Parameters<typeof driver.changedSince>[1],
        ) => (await driver.changedSince(sandboxId, tree)).changed;

        const atStart = await changed(id, { kind: 'base', base });
        await sh(id, 'echo 1 > data');
        const written = await changed(id, { kind: 'base', base });
        await driver.snapshot(id, first, { stop: false });
        const taken = await changed(id, since(first));
        await sh(id, 'cat data; ls -lR . > /dev/null');
        const read = await changed(id, since(first));
        await sh(id, 'echo 2 > data');
        await driver.snapshot(id, second, { stop: false });
        const later = [await changed(id, since(first)), await changed(id, since(second))];
        const fork = await newFork(first);
        const forked = await changed(fork, since(first));
        await sh(fork, 'echo 3 > data');
        const forkWritten = await changed(fork, since(first));
        await driver.stop(id);
        const stopped = await changed(id, since(second));

        expect({ atStart, written, taken, read, later, forked, forkWritten, stopped }).toEqual({
          atStart: false,
          written: true,
          taken: false,
          read: false,
          later: [true, false],
          forked: false,
          forkWritten: true,
          stopped: false,
        });
        expect(await changed(id, since('never-taken'))).toBe(true);
        for (const sandboxId of [id, fork]) await driver.remove(sandboxId);
        for (const versionId of [first, second]) await driver.removeVersion(versionId);
      }));

    test.each([
      ['other content of the same size and time', 'cp -p data x; echo two > data; touch -r x data'],
      ['a mode', 'chmod 600 data'],
      ['a name', 'mv data renamed'],
      ['a file less', 'rm data'],
      ['an empty folder', 'mkdir folder'],
      ['a link', 'ln -s data link'],
      ['a shorter file', 'truncate -s 1 data'],
    ])('%s is a change', (_title, script) =>
      on(async (driver, { newSandbox, sh }) => {
        const id = await newSandbox();
        const versionId = newId('ver');
        await sh(id, 'echo one > data');
        await driver.snapshot(id, versionId, { stop: false });

        await sh(id, script);

        expect(await driver.changedSince(id, since(versionId))).toMatchObject({ changed: true });
        await driver.remove(id);
        await driver.removeVersion(versionId);
      }),
    );

    test('two versions differ by the content of their files, with no link followed', () =>
      on(async (driver, { newSandbox, sh }) => {
        const id = await newSandbox();
        const [first, second] = [newId('ver'), newId('ver')];
        const before =
          'echo a > a; echo b > b; mkdir d; echo c > d/c; ln -s /etc link; seq 100000 > big; echo same > same';
        const after =
          'echo A > a; touch b; chmod 600 b; rm -r d; echo d > d; ln -sfn /usr link; echo end >> big; cp big copy; rm same; echo same > same';
        await sh(id, before);
        await driver.snapshot(id, first, { stop: false });
        await sh(id, after);
        await driver.snapshot(id, second, { stop: false });

        const diff = await driver.diff(since(first), since(second), 100);
        const cut = await driver.diff(since(first), since(second), 2);

        expect(diff).toEqual({
          files: [
            { path: '/workspace/a', change: 'changed', bytes: 2 },
            { path: '/workspace/big', change: 'changed', bytes: 588_899 },
            { path: '/workspace/copy', change: 'added', bytes: 588_899 },
            { path: '/workspace/d', change: 'added', bytes: 2 },
            { path: '/workspace/d/c', change: 'removed', bytes: 2 },
            { path: '/workspace/link', change: 'changed', bytes: 4 },
          ],
          more: 0,
        });
        expect(cut).toEqual({ files: diff.files.slice(0, 2), more: 4 });
        expect(await driver.diff(since(second), since(second), 9)).toEqual({ files: [], more: 0 });
        await driver.remove(id);
        for (const versionId of [first, second]) await driver.removeVersion(versionId);
      }));
  });

  describe('the life of a sandbox', () => {
    test('it is listed while it is there, and removing it twice is no error', () =>
      on(async (driver, { newSandbox }) => {
        const id = await newSandbox();

        expect(await driver.list()).toContain(id);
        expect(await driver.state(id)).toMatchObject({ state: 'running' });
        await driver.remove(id);
        await driver.remove(id);
        expect(await driver.list()).not.toContain(id);
        expect(await driver.state(id)).toEqual({ state: 'absent' });
        await driver.removeVersion('never-taken');
      }));

    test('creating it again starts it anew', () =>
      on(async (driver, { newSandbox, sh }) => {
        const { image } = under();
        const id = await newSandbox();
        await sh(id, 'echo old > data');
        const { base } = await driver.prepareBase(image, []);

        await driver.create({ sandboxId: id, from: { kind: 'base', base }, image, caps });

        expect(await sh(id, 'ls')).toMatchObject({ stdout: '' });
        await driver.remove(id);
      }));

    test('a version that is not there is said', () =>
      on(async (_, { newFork }) => {
        await expect(newFork('no-such-version')).rejects.toMatchObject({
          code: 'version_not_found',
        });
      }));

    test('stop leaves the tree and no process', () =>
      on(async (driver, { newSandbox, start, endOf }) => {
        const id = await newSandbox();
        const { handle } = await start(id, ['sleep', '300']);

        await driver.stop(id);

        expect((await endOf(handle)).end).toEqual({ kind: 'killed' });
        expect(await driver.state(id)).toMatchObject({ state: 'stopped' });
        await driver.remove(id);
      }));

    test('free space is known', () =>
      on(async (driver) => {
        expect(await driver.freeBytes()).toBeGreaterThan(0);
      }));
  });

  if (claims.publish) {
    test('a port answers from the host, and a second publication keeps its number', () =>
      on(async (driver, { newSandbox, start }) => {
        const id = await newSandbox();
        const listen =
          'require("net").createServer((s)=>s.pipe(s)).listen(9000,()=>console.log("up"))';
        const { handle } = await start(id, ['node', '-e', listen]);
        await followUntil(handle, 0, 'up');

        const socket = await driver.connect(id, 9000);
        const echoed = new Promise((resolve) => socket.once('data', (data) => resolve(`${data}`)));
        socket.write('hello');

        expect(await echoed).toBe('hello');
        socket.destroy();
        const hostPort = await driver.publish(id, 9000, null);
        expect(await driver.publish(id, 9000, hostPort)).toBe(hostPort);
        await expect(driver.connect(id, 9001)).rejects.toMatchObject({ code: 'unavailable' });
        handle.release();
        await driver.remove(id);
      }));
  }

  if (claims.runContainer) {
    describe('a verifier container', () => {
      const request = (base: string, argv: string[]) => ({
        containerId: newId('v'),
        base,
        image: under().image,
        argv,
        uid: 2000,
        env: {},
        timeoutS: 30,
        caps,
        readAll: true,
      });

      test('reads what is given, writes its verdict, and is gone afterwards', () =>
        on(async (driver) => {
          const dir = mkdtempSync(path.join(tmpdir(), 'verify-'));
          try {
            for (const name of ['submission', 'verdict']) mkdirSync(path.join(dir, name));
            chmodSync(path.join(dir, 'submission'), 0o700);
            chmodSync(path.join(dir, 'verdict'), 0o777);
            const { base } = await driver.prepareBase(under().image, []);
            const script =
              'test "$(id -u)" = 2000 || exit 9; ls -A /submission || exit 8; ' +
              'touch /submission/x 2>/dev/null && exit 7; echo judged; echo 0.5 > /verdict/reward.txt; exit 3';
            const mounts = [
              { source: path.join(dir, 'submission'), target: '/submission', readOnly: true },
              { source: path.join(dir, 'verdict'), target: '/verdict', readOnly: false },
            ];

            const spec = { ...request(base, ['sh', '-c', script]), mounts };
            const result = await driver.runContainer(spec);

            expect(result).toMatchObject({ exitCode: 3, timedOut: false, outputTail: 'judged\n' });
            expect(readFileSync(path.join(dir, 'verdict/reward.txt'), 'utf8')).toBe('0.5\n');
            await driver.removeContainer(spec.containerId);
          } finally {
            rmSync(dir, { recursive: true });
          }
        }));

      test('is killed whole at its timeout, and only the end of its output is kept', () =>
        on(async (driver) => {
          const { base } = await driver.prepareBase(under().image, []);
          const script = 'sleep 300 & seq 1 20000; echo end; sleep 301';

          const spec = { ...request(base, ['sh', '-c', script]), timeoutS: 1, mounts: [] };
          const result = await driver.runContainer(spec);

          expect(result).toMatchObject({ exitCode: null, timedOut: true });
          expect(result.outputTail).toHaveLength(8192);
          expect(result.outputTail).toMatch(/20000\nend\n$/);
        }));

      test('that cannot start says why', () =>
        on(async (driver) => {
          const { base } = await driver.prepareBase(under().image, []);

          const result = await driver.runContainer({ ...request(base, ['no-such']), mounts: [] });

          expect(result).toMatchObject({ exitCode: 127, timedOut: false });
          expect(result.outputTail).toContain('no-such');
        }));
    });
  }
}

/** Runs last, since nothing runs after it: everything stops, and what was written is still there. */
export function describeShutdown(under: () => DriverUnderTest) {
  test('after shutdown sandboxes are stopped, and can be snapshotted and forked', async () => {
    const { connect, image } = under();
    const before = connect();
    const { newSandbox, sh } = actionsOn(before, image);
    const id = await newSandbox();
    await sh(id, 'echo data > data');

    await before.shutdown();

    const after = connect();
    const { newFork, sh: shAfter } = actionsOn(after, image);
    await after.open();
    expect(await after.state(id)).toMatchObject({ state: 'stopped', hostRestart: false });
    const versionId = newId('ver');
    await after.snapshot(id, versionId, { stop: false });
    const fork = await newFork(versionId);
    expect(await shAfter(fork, 'cat data')).toMatchObject({ stdout: 'data\n' });
    for (const sandboxId of [id, fork]) await after.remove(sandboxId);
    await after.removeVersion(versionId);
    await after.close();
  });
}
