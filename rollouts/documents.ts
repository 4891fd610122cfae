import { createHash } from 'node:crypto';
import { z } from 'zod';
import { ContractMismatchError } from '../denv/errors';
import type { BlobStore } from '../stores/blobs';
import { Lru } from './lru';

const mib = 1024 * 1024;

/** JSON documents in the blob store, parsed once per worker: a blob never changes under its ref. */
export interface Documents {
  /** @returns the blob's ref */
  put(value: object): Promise<string>;
  /** @throws ContractMismatchError, BlobNotFoundError */
  get<S extends z.ZodType>(schema: S, ref: string): Promise<z.output<S>>;
  /** A document that was stored under a name; null when there is none. */
  find<S extends z.ZodType>(schema: S, name: string): Promise<z.output<S> | null>;
}

export function createDocuments(blobs: BlobStore): Documents {
  const cache = new Lru<unknown>(64 * mib);
  const parse = <S extends z.ZodType>(schema: S, id: string, data: Buffer): z.output<S> => {
    const parsed = schema.safeParse(JSON.parse(data.toString('utf8')));
    if (!parsed.success) {
      throw new ContractMismatchError(`${id} is not of its kind: ${z.prettifyError(parsed.error)}`);
    }
    const value = parsed.data;
    cache.set(id, value, data.length);
    return value;
  };
  return {
    async put(value) {
      const data = Buffer.from(JSON.stringify(value));
      const { ref } = await blobs.put(data);
      cache.set(ref, value, data.length);
      return ref;
    },
    async get(schema, ref) {
      // What the cache holds under a ref was put, or parsed by the schema of its kind, in this process.
      const cached = cache.get(ref) as z.output<typeof schema> | undefined;
      return cached ?? parse(schema, ref, await blobs.get(ref));
    },
    async find(schema, name) {
      const cached = cache.get(name) as z.output<typeof schema> | undefined;
      if (cached) return cached;
      const data = await blobs.find(name);
      return data ? parse(schema, name, data) : null;
    },
  };
}

/** Seconds to the millisecond: what goes through a history is short. */
export const toMs = (seconds: number): number => Math.round(seconds * 1000) / 1000;

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

/** The name under which the reply of a model call is kept. */
export const replyName = (modelKey: string): string => `replies/${sha256(modelKey)}`;
