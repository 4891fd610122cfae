import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { FileTree } from '../../contracts/denv';
import type { FileArchive, ImageSource, SandboxDriver } from '../drivers/driver';
import { DenvError } from '../errors';

type PreparedBase = Awaited<ReturnType<SandboxDriver['prepareBase']>>;

/** A file tree that the server holds: its tar is kept under its digest. */
export interface HeldTree {
  to: string;
  sha256: string;
}

const MEMORY_MAX_BYTES = 128 * 1024 * 1024;
const RETENTION_MS = 7 * 86_400_000;

/** The tar archives that requests came with, by digest: many sandboxes of one task send theirs once. */
export class Archives {
  private readonly folder: string;
  private readonly memory = new Map<string, Buffer>();
  private memoryBytes = 0;
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
    const make = async () => driver.prepareBase(image, await this.load(trees));
    if (image.kind !== 'host') return make();
    const name = JSON.stringify(trees);
    const known = this.prepared.get(name);
    if (known) return known;
    const making = make();
    this.prepared.set(name, making);
    making.catch(() => this.prepared.delete(name));
    return making;
  }

  private async load(trees: HeldTree[]): Promise<FileArchive[]> {
    return Promise.all(trees.map(async ({ to, sha256 }) => ({ to, tar: await this.read(sha256) })));
  }

  /** Drops what no request has used for a week. */
  async sweep(): Promise<void> {
    for (const name of await readdir(this.folder).catch(() => [])) {
      const path = join(this.folder, name);
      if ((await stat(path)).mtimeMs < Date.now() - RETENTION_MS) await rm(path, { force: true });
    }
  }

  private async keep(tarBase64: string): Promise<string> {
    const tar = Buffer.from(tarBase64, 'base64');
    const sha256 = createHash('sha256').update(tar).digest('hex');
    if (await this.has(sha256)) return sha256;
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const half = join(this.folder, `${sha256}.${process.pid}.half`);
    await writeFile(half, tar, { mode: 0o600 });
    await rename(half, join(this.folder, sha256));
    this.remember(sha256, tar);
    return sha256;
  }

  private async has(sha256: string): Promise<boolean> {
    if (this.memory.has(sha256)) return true;
    const now = new Date();
    return utimes(join(this.folder, sha256), now, now).then(
      () => true,
      () => false,
    );
  }

  private async read(sha256: string): Promise<Buffer> {
    const known = this.memory.get(sha256);
    if (known) return known;
    const tar = await readFile(join(this.folder, sha256));
    this.remember(sha256, tar);
    return tar;
  }

  /** Keeps the newest in memory, within its limit; the oldest go first. */
  private remember(sha256: string, tar: Buffer): void {
    this.memory.set(sha256, tar);
    this.memoryBytes += tar.length;
    for (const [oldest, bytes] of this.memory) {
      if (this.memoryBytes <= MEMORY_MAX_BYTES) break;
      this.memory.delete(oldest);
      this.memoryBytes -= bytes.length;
    }
  }
}
