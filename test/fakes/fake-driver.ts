import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';
import { DenvError } from '../../denv/errors';
import type {
  AttachedExec,
  ExecEnd,
  ExecHandle,
  ExecSpec,
  FileArchive,
  ImageSource,
  SandboxDriver,
  SandboxSpec,
  TreeName,
} from '../../denv/drivers/driver';
import { unpackFiles } from '../../denv/drivers/linux/unpack';
import { attachFakeExec } from './fake-attach';
import { diffFolders, sameTree } from './fake-trees';

/**
 * Sandboxes as plain directories and child processes, for tests without root. Nothing is isolated: a program runs as the
 * tests' user, in the sandbox's directory, and absolute paths are the host's. Execs end with this process. What it cannot do
 * (verifier containers, archives as images) is refused with `capability_missing`.
 */
export function createFakeDriver(dir: string): SandboxDriver {
  const at = (...parts: string[]) => path.join(dir, ...parts);
  const treeOf = (tree: TreeName) =>
    tree.kind === 'base' ? at('bases', tree.base) : at('versions', tree.versionId);
  const running = new Map<string, Map<string, FakeExec>>();
  const attached = new Map<string, Set<AttachedExec>>();
  const making = new Map<string, Promise<void>>();
  const stopped = new DenvError('sandbox_stopped', 'the sandbox does not run');

  function copy(from: string, to: string): void {
    rmSync(`${to}.tmp`, { recursive: true, force: true });
    cpSync(from, `${to}.tmp`, {
      recursive: true,
      verbatimSymlinks: true,
      preserveTimestamps: true,
    });
    renameSync(`${to}.tmp`, to);
  }

  async function makeBase(name: string, image: ImageSource, files: FileArchive[]): Promise<void> {
    const half = at('bases', `${name}.tmp`);
    rmSync(half, { recursive: true, force: true });
    try {
      if (image.kind === 'dir') copy(image.path, half);
      for (const made of ['workspace', 'home/agent', 'tmp']) {
        mkdirSync(path.join(half, made), { recursive: true });
      }
      for (const archive of files) {
        mkdirSync(path.join(half, archive.to), { recursive: true });
        await unpackFiles(half, archive);
      }
      renameSync(half, at('bases', name));
    } finally {
      rmSync(half, { recursive: true, force: true });
    }
  }

  async function prepareBase(image: ImageSource, files: FileArchive[]) {
    if (image.kind === 'tar') throw missing('an archive as image');
    if (image.kind === 'dir' && !existsSync(image.path)) {
      throw new DenvError('image_not_found', `no directory ${image.path}`);
    }
    const hash = createHash('sha256').update(JSON.stringify(image));
    for (const file of files) hash.update(file.to).update(file.sha256);
    const name = hash.digest('hex');
    if (!existsSync(at('bases', name))) {
      const make = making.get(name) ?? makeBase(name, image, files);
      making.set(name, make);
      await make.finally(() => making.delete(name));
    }
    return { base: name, digest: `sha256:${name}`, reproducible: image.kind !== 'host' };
  }

  async function create({ sandboxId, from }: SandboxSpec): Promise<void> {
    const source = treeOf(from);
    if (!existsSync(source)) throw new DenvError('version_not_found', `no tree ${source}`);
    await remove(sandboxId);
    copy(source, at('sandboxes', sandboxId));
    running.set(sandboxId, new Map());
  }

  async function stop(sandboxId: string): Promise<void> {
    const execs = running.get(sandboxId);
    running.delete(sandboxId);
    for (const exec of execs?.values() ?? []) await exec.kill();
    for (const exec of attached.get(sandboxId) ?? []) await exec.end();
    attached.delete(sandboxId);
    ended.set(sandboxId, execs ?? ended.get(sandboxId) ?? new Map<string, FakeExec>());
  }
  const ended = new Map<string, Map<string, FakeExec>>();

  async function remove(sandboxId: string): Promise<void> {
    await stop(sandboxId);
    ended.delete(sandboxId);
    rmSync(at('sandboxes', sandboxId), { recursive: true, force: true });
  }

  async function snapshot(sandboxId: string, versionId: string, options: { stop: boolean }) {
    const tree = at('sandboxes', sandboxId);
    if (!existsSync(tree)) throw new DenvError('sandbox_not_found', `no sandbox ${sandboxId}`);
    const execs = running.get(sandboxId);
    const begin = performance.now();
    for (const exec of execs?.values() ?? []) exec.signal('SIGSTOP');
    if (!existsSync(at('versions', versionId))) copy(tree, at('versions', versionId));
    for (const exec of execs?.values() ?? []) exec.signal('SIGCONT');
    const pausedMs = execs ? performance.now() - begin : null;
    if (options.stop) await stop(sandboxId);
    return { pausedMs, flushMs: null };
  }

  return {
    name: 'fake',
    async open() {
      for (const made of ['bases', 'sandboxes', 'versions'])
        mkdirSync(at(made), { recursive: true });
    },
    async close() {},
    async shutdown() {
      for (const sandboxId of running.keys()) await stop(sandboxId);
    },
    async probe() {
      return {
        name: 'fake',
        missing: null,
        exec: true,
        attach: true,
        userNamespaces: false,
        fork: 'O(change)',
        memoryFork: false,
        egressDeny: false,
        caps: { cpus: false, memoryMb: false, pids: false, diskMb: false },
        gpu: false,
        stdio: true,
        publish: true,
        separateVerify: false,
        images: ['host', 'dir'],
        notes: ['not isolated: for tests only'],
      };
    },
    async freeBytes() {
      const { bavail, bsize } = await statfs(dir);
      return bavail * bsize;
    },
    prepareBase,
    create,
    async state(sandboxId) {
      if (!existsSync(at('sandboxes', sandboxId))) return { state: 'absent' };
      if (running.has(sandboxId)) return { state: 'running', oomKills: 0 };
      return { state: 'stopped', oomKills: 0, hostRestart: false };
    },
    stop,
    remove,
    list: async () => readdirSync(at('sandboxes')),
    snapshot,
    async changedSince(sandboxId, since) {
      const tree = treeOf(since);
      const changed = !existsSync(tree) || !sameTree(at('sandboxes', sandboxId), tree);
      return { changed, flushMs: null };
    },
    versionBytes: async () => null,
    diff: async (a, b, limit) => diffFolders(treeOf(a), treeOf(b), limit),
    hasVersion: async (versionId) => existsSync(at('versions', versionId)),
    async removeVersion(versionId) {
      rmSync(at('versions', versionId), { recursive: true, force: true });
    },
    listVersions: async () => readdirSync(at('versions')),
    versionPath: (versionId) => at('versions', versionId),
    basePath: (base) => at('bases', base),
    async startExec(sandboxId, execId, spec) {
      const execs = running.get(sandboxId);
      if (!execs) throw stopped;
      execs.set(
        execId,
        startFakeExec(at('sandboxes', sandboxId), spec, () => execs.delete(execId)),
      );
    },
    async openExec(sandboxId, execId) {
      return (running.get(sandboxId) ?? ended.get(sandboxId))?.get(execId) ?? null;
    },
    async attachExec(sandboxId, _execId, spec) {
      if (!running.has(sandboxId)) throw stopped;
      if (spec.tty) throw missing('a terminal');
      const exec = attachFakeExec(at('sandboxes', sandboxId), spec);
      const others = attached.get(sandboxId) ?? new Set();
      attached.set(sandboxId, others.add(exec));
      return exec;
    },
    async connect(sandboxId, port) {
      if (!running.has(sandboxId)) throw stopped;
      const socket = net.connect({ port, host: '127.0.0.1' });
      return new Promise((resolve, reject) => {
        socket.once('connect', () => resolve(socket));
        socket.once('error', (error) => reject(new DenvError('unavailable', error.message)));
      });
    },
    async publish(sandboxId, port) {
      if (!running.has(sandboxId)) throw stopped;
      return port;
    },
    async runContainer() {
      throw missing('a verifier container');
    },
    async removeContainer() {},
  };
}

function missing(what: string): DenvError {
  return new DenvError('capability_missing', `the fake driver cannot do ${what}`);
}

interface FakeExec extends ExecHandle {
  signal(name: NodeJS.Signals): void;
}

function startFakeExec(tree: string, spec: ExecSpec, onRemove: () => void): FakeExec {
  const out: Buffer[] = [];
  const err: Buffer[] = [];
  const followers = new Set<() => void>();
  let killed = false;
  let child: ChildProcess | null = null;
  const cwd = path.join(tree, spec.cwd);
  const env = { PATH: process.env.PATH, HOME: path.join(tree, 'home/agent'), ...spec.env };
  const [command, ...args] = spec.argv as [string, ...string[]]; // The contract asks for one at least.
  const ending = new Promise<ExecEnd>((resolve) => {
    const fail = (exitCode: number, message: string) => {
      err.push(Buffer.from(`${message}\n`));
      resolve({ kind: 'exited', exitCode });
    };
    if (!statSync(cwd, { throwIfNoEntry: false })?.isDirectory()) {
      fail(126, `no directory ${spec.cwd}`);
      return;
    }
    const started = spawn(command, args, { cwd, env, detached: true });
    child = started;
    started.on('error', (error: NodeJS.ErrnoException) =>
      fail(error.code === 'ENOENT' ? 127 : 126, error.message),
    );
    started.stdout.on('data', (data: Buffer) => {
      out.push(data);
      for (const follower of followers) follower();
    });
    started.stderr.on('data', (data: Buffer) => err.push(data));
    started.stdin.on('error', () => undefined); // It may end without reading its input.
    if (spec.stdin !== 'pipe') started.stdin.end(spec.stdin ?? '');
    const end = (code: number | null, signal: string | null) =>
      resolve(killed || signal ? { kind: 'killed' } : { kind: 'exited', exitCode: code ?? 0 });
    started.on('close', end);
    // A background process may hold the streams open: what the main process wrote is read soon after its end.
    started.on('exit', (code, signal) => setTimeout(() => end(code, signal), 100).unref());
  });

  function signal(name: NodeJS.Signals): void {
    try {
      if (child?.pid) process.kill(-child.pid, name);
    } catch {
      // Nothing of its group is left.
    }
  }

  return {
    signal,
    ended: () => ending,
    async kill() {
      killed = child !== null && child.exitCode === null;
      signal('SIGKILL');
      await ending;
    },
    async output(maxBytes) {
      const [stdout, stderr] = [Buffer.concat(out), Buffer.concat(err)];
      return {
        stdout: stdout.subarray(0, maxBytes),
        stderr: stderr.subarray(0, maxBytes),
        truncated: stdout.length > maxBytes || stderr.length > maxBytes,
      };
    },
    outputBytes: async () => Buffer.concat([...out, ...err]).length,
    follow(fromOffset, onData) {
      let offset = fromOffset;
      const look = () => {
        const data = Buffer.concat(out).subarray(offset);
        offset += data.length;
        if (data.length > 0) onData(data, offset);
      };
      followers.add(look);
      look();
      return () => followers.delete(look);
    },
    write: (data) =>
      new Promise((resolve, reject) => {
        if (!child?.stdin) return reject(new DenvError('controller_failed', 'stdin is closed'));
        child.stdin.write(data, (error) => (error ? reject(error) : resolve()));
      }),
    release: () => followers.clear(),
    async remove() {
      onRemove();
    },
  };
}
