import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { BlobNotFoundError } from '../../stores/blobs';
import type { BlobStore } from '../../stores/blobs';

/** A blob store in memory, with the same promises as a real one. */
export class MemoryBlobs implements BlobStore {
  readonly content = new Map<string, Buffer>();
  readonly named = new Map<string, Buffer>();

  put(data: Buffer): Promise<{ ref: string; bytes: number }> {
    const ref = `sha256:${createHash('sha256').update(data).digest('hex')}`;
    this.content.set(ref, data);
    return Promise.resolve({ ref, bytes: data.length });
  }

  get(ref: string): Promise<Buffer> {
    const data = this.content.get(ref);
    return data ? Promise.resolve(data) : Promise.reject(new BlobNotFoundError(`no blob ${ref}`));
  }

  async putStream(source: AsyncIterable<Uint8Array>): Promise<{ ref: string; bytes: number }> {
    const pieces: Uint8Array[] = [];
    for await (const piece of source) pieces.push(piece);
    return this.put(Buffer.concat(pieces));
  }

  async stream(ref: string): Promise<Readable> {
    return Readable.from([await this.get(ref)]);
  }

  putIfAbsent(name: string, data: Buffer): Promise<{ data: Buffer; won: boolean }> {
    const before = this.named.get(name);
    if (before) return Promise.resolve({ data: before, won: false });
    this.named.set(name, data);
    return Promise.resolve({ data, won: true });
  }

  find(name: string): Promise<Buffer | null> {
    return Promise.resolve(this.named.get(name) ?? null);
  }

  list(prefix: string): Promise<string[]> {
    return Promise.resolve([...this.named.keys()].filter((name) => name.startsWith(prefix)));
  }
}
