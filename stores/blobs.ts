import type { Readable } from 'node:stream';

/**
 * Large things by name: content under its sha256 (`sha256:<hex>`), and named entries that are written once.
 * Nothing is ever overwritten. Every method throws StoreError when the store is away and may come back.
 */
export interface BlobStore {
  /** Stores bytes under their digest. Idempotent. */
  put(data: Buffer): Promise<{ ref: string; bytes: number }>;
  /** The same for what is too large to hold. Idempotent; nothing is stored when the source fails. */
  putStream(source: AsyncIterable<Uint8Array>): Promise<{ ref: string; bytes: number }>;
  /** @throws BlobNotFoundError */
  get(ref: string): Promise<Buffer>;
  /** The same in pieces. @throws BlobNotFoundError */
  stream(ref: string): Promise<Readable>;
  /**
   * Stores bytes under a name, unless the name is taken (`O_EXCL` + link, or `If-None-Match: *`).
   * @returns what the name now holds: `data`, or the bytes that were there first
   */
  putIfAbsent(name: string, data: Buffer): Promise<{ data: Buffer; won: boolean }>;
  /** The bytes of a named entry, or null. */
  find(name: string): Promise<Buffer | null>;
  /** Names under a prefix that ends in `/`. */
  list(prefix: string): Promise<string[]>;
}

export class BlobNotFoundError extends Error {
  override readonly name = 'BlobNotFoundError';
}
