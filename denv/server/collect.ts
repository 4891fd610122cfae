import { createHash } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import { type FileHandle, lstat, mkdir, open, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK, O_DIRECTORY, O_WRONLY, O_CREAT, O_EXCL } = constants;

export interface CollectEntry {
  path: string;
  exclude: string[];
}

export interface Collected {
  files: { path: string; bytes: number; sha256: string }[];
  missing: string[];
  refused: { path: string; why: string } | null;
}

export interface CollectLimits {
  maxBytes: number;
  maxFiles: number;
  maxDepth: number;
}

export const defaultCollectLimits: CollectLimits = {
  maxBytes: 256 * 1024 * 1024,
  maxFiles: 100_000,
  maxDepth: 64,
};

class Refused extends Error {
  constructor(
    readonly path: string,
    readonly why: string,
  ) {
    super(`${path}: ${why}`);
  }
}

/**
 * Copies declared paths out of a frozen tree into a root-owned folder. Every component is opened without following links,
 * relative to its parent's descriptor; only regular files and folders on the tree's own file system are taken. A symbolic or
 * hard link, fifo, socket, device, setuid file, mount, odd name or over-size refuses the whole submission.
 * A declared path that is not there is no refusal: it is listed.
 */
export async function collect(
  root: string,
  out: string,
  entries: CollectEntry[],
  limits: CollectLimits = defaultCollectLimits,
): Promise<Collected> {
  const collector = new Collector(out, limits);
  const result: Collected = { files: collector.files, missing: [], refused: null };
  await mkdir(out, { recursive: true, mode: 0o755 });
  const rootHandle = await open(root, O_RDONLY | O_DIRECTORY);
  try {
    for (const entry of entries) {
      if (!(await collector.take(rootHandle, entry))) result.missing.push(entry.path);
    }
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    result.refused = { path: error.path, why: error.why };
  } finally {
    await rootHandle.close();
  }
  return result;
}

/** One regular file by the same rules; null when it is not there. @returns its bytes, or why it is refused */
export async function readCollected(
  root: string,
  name: string,
  maxBytes: number,
): Promise<{ data: Buffer } | { refused: string } | null> {
  const rootHandle = await open(root, O_RDONLY | O_DIRECTORY);
  try {
    const dev = (await rootHandle.stat()).dev;
    const opened = await openChild(rootHandle, name, name, dev);
    if (!opened) return null;
    try {
      if (!opened.stat.isFile()) return { refused: 'not a regular file' };
      const data = Buffer.alloc(maxBytes + 1);
      const { bytesRead } = await opened.handle.read(data, 0, data.length, 0);
      if (bytesRead > maxBytes) return { refused: `larger than ${maxBytes} bytes` };
      return { data: data.subarray(0, bytesRead) };
    } finally {
      await opened.handle.close();
    }
  } catch (error) {
    if (error instanceof Refused) return { refused: error.why };
    throw error;
  } finally {
    await rootHandle.close();
  }
}

class Collector {
  readonly files: Collected['files'] = [];
  private bytes = 0;
  private dev: number | null = null;

  constructor(
    private readonly out: string,
    private readonly limits: CollectLimits,
  ) {}

  /** @returns false when the path is not there */
  async take(rootHandle: FileHandle, entry: CollectEntry): Promise<boolean> {
    this.dev ??= (await rootHandle.stat()).dev;
    const parts = entry.path.split('/').filter((part) => part !== '');
    const last = parts.pop();
    if (last === undefined) throw new Refused(entry.path, 'the whole tree cannot be collected');
    const parents: FileHandle[] = [];
    try {
      let parent = rootHandle;
      for (const part of parts) {
        const opened = await openChild(parent, part, entry.path, this.dev);
        if (!opened) return false;
        parents.push(opened.handle);
        if (!opened.stat.isDirectory()) throw new Refused(entry.path, `${part} is not a folder`);
        parent = opened.handle;
      }
      const excluded = matcher(entry.exclude);
      return await this.copy(parent, last, `/${[...parts, last].join('/')}`, '', excluded, 0);
    } finally {
      for (const handle of parents) await handle.close();
    }
  }

  private async copy(
    parent: FileHandle,
    name: string,
    path: string,
    inside: string,
    excluded: (inside: string) => boolean,
    depth: number,
  ): Promise<boolean> {
    if (depth > this.limits.maxDepth)
      throw new Refused(path, `deeper than ${this.limits.maxDepth} folders`);
    const opened = await openChild(parent, name, path, this.dev ?? 0);
    if (!opened) return false;
    try {
      if (opened.stat.isFile()) await this.copyFile(opened.handle, path);
      else {
        await mkdir(join(this.out, path), { recursive: true, mode: 0o755 });
        for (const child of await namesIn(opened.handle, path)) {
          const below = inside === '' ? child : `${inside}/${child}`;
          if (excluded(below)) continue;
          await this.copy(opened.handle, child, `${path}/${child}`, below, excluded, depth + 1);
        }
      }
    } finally {
      await opened.handle.close();
    }
    return true;
  }

  private async copyFile(source: FileHandle, path: string): Promise<void> {
    if (this.files.length >= this.limits.maxFiles) {
      throw new Refused(path, `more than ${this.limits.maxFiles} files`);
    }
    const target = join(this.out, path);
    await mkdir(dirname(target), { recursive: true, mode: 0o755 });
    const copy = await open(target, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o644);
    const hash = createHash('sha256');
    const buffer = Buffer.allocUnsafe(1024 * 1024);
    let bytes = 0;
    try {
      for (;;) {
        const { bytesRead } = await source.read(buffer, 0, buffer.length, null);
        if (bytesRead === 0) break;
        bytes += bytesRead;
        this.bytes += bytesRead;
        // By what is read, not by what stat says: a sparse file may claim anything.
        if (this.bytes > this.limits.maxBytes) {
          throw new Refused(path, `the submission is larger than ${this.limits.maxBytes} bytes`);
        }
        hash.update(buffer.subarray(0, bytesRead));
        await copy.write(buffer, 0, bytesRead);
      }
    } finally {
      await copy.close();
    }
    this.files.push({ path, bytes, sha256: hash.digest('hex') });
  }
}

/** Opens one name under an open folder, through its descriptor and never through a link; null when it is not there. */
async function openChild(
  parent: FileHandle,
  name: string,
  path: string,
  dev: number,
): Promise<{ handle: FileHandle; stat: Stats } | null> {
  if (name === '.' || name === '..' || name.includes('\0'))
    throw new Refused(path, `bad name ${name}`);
  const target = `/proc/self/fd/${parent.fd}/${name}`;
  const before = await lstat(target).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return null;
    throw error;
  });
  if (!before) return null;
  refuseKind(before, path, dev);
  const handle = await open(
    target,
    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | (before.isDirectory() ? O_DIRECTORY : 0),
  ).catch(() => {
    throw new Refused(path, 'it changed while it was opened');
  });
  const stat = await handle.stat();
  if (stat.ino !== before.ino || stat.dev !== before.dev || (stat.isFile() && stat.nlink !== 1)) {
    await handle.close();
    throw new Refused(path, 'it changed while it was opened');
  }
  return { handle, stat };
}

function refuseKind(stat: Stats, path: string, dev: number): void {
  if (stat.isSymbolicLink()) throw new Refused(path, 'a symbolic link');
  if (stat.isFIFO()) throw new Refused(path, 'a fifo');
  if (stat.isSocket()) throw new Refused(path, 'a socket');
  if (stat.isBlockDevice() || stat.isCharacterDevice()) throw new Refused(path, 'a device');
  if (stat.dev !== dev) throw new Refused(path, 'another file system');
  if ((stat.mode & 0o4000) !== 0 || (stat.isFile() && (stat.mode & 0o2000) !== 0)) {
    throw new Refused(path, 'setuid or setgid');
  }
  if (stat.isFile() && stat.nlink !== 1)
    throw new Refused(path, `a hard link (${stat.nlink} names)`);
}

async function namesIn(folder: FileHandle, path: string): Promise<string[]> {
  const names = await readdir(`/proc/self/fd/${folder.fd}`, { encoding: 'buffer' });
  return names
    .map((bytes) => {
      const name = bytes.toString('utf8');
      if (!Buffer.from(name).equals(bytes)) throw new Refused(path, 'a name that is not UTF-8');
      return name;
    })
    .sort();
}

/** A pattern is a path below the entry, or a name anywhere below it; `*` stands for anything but `/`. */
function matcher(patterns: string[]): (inside: string) => boolean {
  const tests = patterns.map((pattern) => {
    const clean = pattern.replace(/^\.?\/+/, '').replace(/\/+$/, '');
    const body = clean.replace(/[.+?^${}()|[\]\\]/g, '\\$&').replaceAll('*', '[^/]*');
    return new RegExp(clean.includes('/') ? `^${body}$` : `(^|/)${body}$`);
  });
  return (inside) => tests.some((test) => test.test(inside));
}
