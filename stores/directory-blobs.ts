import { createHash, randomBytes } from 'node:crypto';
import {
  closeSync,
  createReadStream,
  existsSync,
  fdatasync,
  linkSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { open, readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { BlobNotFoundError } from './blobs';
import type { BlobStore } from './blobs';
import { encodeName, namesUnder } from './blob-names';
import { toStoreError } from './errors';

const flush = promisify(fdatasync);

/** A temporary file this old belongs to a process that was killed in the middle of a write. */
const staleTmpMs = 60 * 60 * 1000;

/**
 * Blobs in a directory, shared by any number of processes. A blob is written to a temporary file, flushed, and linked to
 * its name, so a reader sees a whole blob or none, whatever is killed and whenever the power goes.
 * Only the flush is waited for aside: each other call takes a tenth of what handing it to another thread would.
 * Every method throws StoreError when the directory cannot be read or written now.
 *
 * Layout: `content/<2 hex>/<sha256>`, `named/…` (see blob-names.ts), `tmp/`.
 */
export function createDirectoryBlobs(dir: string): BlobStore {
  const tmpDir = join(dir, 'tmp');
  const namedDir = join(dir, 'named');
  mkdirSync(tmpDir, { recursive: true, mode: 0o700 });
  mkdirSync(namedDir, { recursive: true, mode: 0o700 });
  removeStaleTmp(tmpDir);

  const contentPath = (hex: string) => join(dir, 'content', hex.slice(0, 2), hex);
  const namedPath = (name: string) => join(namedDir, encodeName(name));
  const newTmp = () => join(tmpDir, `${process.pid}-${randomBytes(8).toString('hex')}`);

  function pathOf(ref: string): string {
    const hex = /^sha256:([0-9a-f]{64})$/.exec(ref)?.[1];
    if (hex === undefined) throw new BlobNotFoundError(`${ref} is not a blob ref`);
    return contentPath(hex);
  }

  async function attempt<T>(work: () => T | Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw toStoreError(error, `the blob directory ${dir}`);
    }
  }

  /** Links a finished file to `path`. False when something was there first. */
  async function publish(path: string, data: Buffer): Promise<boolean> {
    const tmp = newTmp();
    const file = openSync(tmp, 'wx', 0o600);
    try {
      try {
        for (let at = 0; at < data.length;) at += writeSync(file, data, at);
        await flush(file);
      } finally {
        closeSync(file);
      }
      return linkTo(tmp, path);
    } finally {
      unlinkSync(tmp);
    }
  }

  /** Writes a source to a temporary file, flushed. Its own errors pass as they stand: they say nothing of this store. */
  async function writeTmp(tmp: string, source: AsyncIterable<Uint8Array>) {
    const file = await attempt(() => open(tmp, 'wx', 0o600));
    const hash = createHash('sha256');
    let bytes = 0;
    try {
      for await (const piece of source) {
        hash.update(piece);
        bytes += piece.length;
        await attempt(() => file.writeFile(piece));
      }
      await attempt(() => file.datasync());
    } finally {
      await file.close();
    }
    return { hex: hash.digest('hex'), bytes };
  }

  return {
    put: (data) =>
      attempt(async () => {
        const hex = createHash('sha256').update(data).digest('hex');
        const path = contentPath(hex);
        if (!existsSync(path)) await publish(path, data);
        return { ref: `sha256:${hex}`, bytes: data.length };
      }),

    async putStream(source) {
      const tmp = newTmp();
      try {
        const { hex, bytes } = await writeTmp(tmp, source);
        await attempt(() => linkTo(tmp, contentPath(hex)));
        return { ref: `sha256:${hex}`, bytes };
      } finally {
        rmSync(tmp, { force: true });
      }
    },

    async get(ref) {
      const data = await attempt(() => readOrNull(pathOf(ref)));
      if (data === null) throw new BlobNotFoundError(`no blob ${ref} in ${dir}`);
      return data;
    },

    async stream(ref) {
      const path = pathOf(ref);
      const fd = await attempt(() => orNull(() => openSync(path, 'r')));
      if (fd === null) throw new BlobNotFoundError(`no blob ${ref} in ${dir}`);
      return createReadStream(path, { fd });
    },

    putIfAbsent: (name, data) =>
      attempt(async () => {
        const path = namedPath(name);
        const before = readOrNull(path);
        if (before !== null) return { data: before, won: false };
        if (await publish(path, data)) return { data, won: true };
        return { data: readFileSync(path), won: false };
      }),

    find: (name) => attempt(() => readOrNull(namedPath(name))),

    async list(prefix) {
      if (!prefix.endsWith('/')) throw new Error(`a prefix ends in "/": ${prefix}`);
      return attempt(() => namesUnder(prefix, (path) => listOrEmpty(join(namedDir, path))));
    },
  };
}

function linkTo(tmp: string, path: string): boolean {
  for (;;) {
    try {
      linkSync(tmp, path);
      return true;
    } catch (error) {
      const code = codeOf(error);
      if (code === 'EEXIST') return false;
      if (code !== 'ENOENT') throw error;
      // The first of its folder.
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    }
  }
}

function removeStaleTmp(tmpDir: string): void {
  for (const name of readdirSync(tmpDir)) {
    const path = join(tmpDir, name);
    const found = statSync(path, { throwIfNoEntry: false });
    if (found && Date.now() - found.mtimeMs > staleTmpMs) rmSync(path, { force: true });
  }
}

const readOrNull = (path: string): Buffer | null => orNull(() => readFileSync(path));

/** Null where there is no such file. */
function orNull<T>(read: () => T): T | null {
  try {
    return read();
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null;
    throw error;
  }
}

async function listOrEmpty(path: string): Promise<string[]> {
  try {
    return await readdir(path);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

function codeOf(error: unknown): unknown {
  return typeof error === 'object' && error !== null && 'code' in error ? error.code : undefined;
}
