import { createHash, randomBytes } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { FileTree } from '../../contracts/denv';
import type { ImageSource, SandboxDriver } from '../drivers/driver';
import { DenvError } from '../errors';

type PreparedBase = Awaited<ReturnType<SandboxDriver['prepareBase']>>;

/** A file tree that the server holds: its tar is kept under its digest. */
export interface HeldTree {
  to: string;
  sha256: string;
}

const MAX_TREE_BYTES = 1024 ** 3;
const RETENTION_MS = 7 * 86_400_000;

/** The tar archives that requests came with, by digest: many sandboxes of one task send theirs once. */
export class Archives {
  private readonly folder: string;
  private readonly prepared = new Map<string, Promise<PreparedBase>>();

  constructor(dataDir: string) {
    this.folder = join(dataDir, 'archives');
  }

  /**
   * Takes the trees of a request in. Idempotent; it is no effect of the request.
   * @throws DenvError files_missing, naming the digests that are not held
   */
  async hold(trees: FileTree[]): Promise<HeldTree[]> {
    const held: HeldTree[] = [];
    const missing: string[] = [];
    for (const tree of trees) {
      const sha256 = 'sha256' in tree ? tree.sha256 : await this.keep(tree.tarBase64);
      if ('sha256' in tree && !(await this.has(sha256))) missing.push(sha256);
      held.push({ to: tree.to, sha256 });
    }
    if (missing.length === 0) return held;
    throw new DenvError('files_missing', `this server does not hold ${missing.join(', ')}`, {
      details: { sha256: missing },
    });
  }

  /**
   * The prepared tree of an image with these trees over it. The host's own image is asked for once a process: its preparation
   * does not change, while a directory or an archive may.
   * @throws DenvError image_not_found
   */
  prepare(driver: SandboxDriver, image: ImageSource, trees: HeldTree[]): Promise<PreparedBase> {
    const files = trees.map(({ to, sha256 }) => ({
      to,
      sha256,
      open: () => createReadStream(this.pathOf(sha256)),
    }));
    const make = () => driver.prepareBase(image, files);
    if (image.kind !== 'host') return make();
    const name = JSON.stringify(trees);
    const known = this.prepared.get(name);
    if (known) return known;
    const making = make();
    this.prepared.set(name, making);
    making.catch(() => this.prepared.delete(name));
    return making;
  }

  /** Drops what no request has used for a week. */
  async sweep(): Promise<void> {
    for (const name of await this.names()) {
      const path = join(this.folder, name);
      if ((await stat(path)).mtimeMs < Date.now() - RETENTION_MS) await rm(path, { force: true });
    }
  }

  /**
   * Takes a tar in, in pieces, under the digest that it must have. Idempotent.
   * @throws DenvError invalid_request when it has another digest, or is too large; disk_full
   */
  async receive(sha256: string, tar: AsyncIterable<Uint8Array>): Promise<void> {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const half = join(this.folder, `${sha256}.${randomBytes(8).toString('hex')}.half`);
    try {
      const found = await writeChecked(half, tar);
      if (found !== sha256) {
        throw new DenvError('invalid_request', `the tree has digest ${found}, not ${sha256}`);
      }
      await rename(half, this.pathOf(sha256));
    } catch (error) {
      await rm(half, { force: true });
      throw error;
    }
  }

  private async names(): Promise<string[]> {
    try {
      return await readdir(this.folder);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []; // undefined is not ENOENT
      throw error;
    }
  }

  private async keep(tarBase64: string): Promise<string> {
    const tar = Buffer.from(tarBase64, 'base64');
    const sha256 = createHash('sha256').update(tar).digest('hex');
    if (!(await this.has(sha256))) await this.receive(sha256, Readable.from([tar]));
    return sha256;
  }

  /** Asking counts as use. */
  private async has(sha256: string): Promise<boolean> {
    const now = new Date();
    return utimes(this.pathOf(sha256), now, now).then(
      () => true,
      () => false,
    );
  }

  private pathOf(sha256: string): string {
    return join(this.folder, sha256);
  }
}

/** Writes a new file and returns the digest of what went into it. */
async function writeChecked(path: string, pieces: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256');
  let bytes = 0;
  const file = await open(path, 'wx', 0o600);
  try {
    for await (const piece of pieces) {
      bytes += piece.length;
      if (bytes > MAX_TREE_BYTES) {
        throw new DenvError('invalid_request', `a tree may have ${MAX_TREE_BYTES} bytes`);
      }
      hash.update(piece);
      await file.writeFile(piece);
    }
    await file.datasync();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error; // undefined is not ENOSPC
    throw new DenvError('disk_full', 'no room for the tree', { cause: error });
  } finally {
    await file.close();
  }
  return hash.digest('hex');
}
