import { createHash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { ContractMismatchError } from '../denv/errors';
import type { BlobStore } from '../stores/blobs';

const mib = 1024 * 1024;

/** Reads a JSON document. @throws ContractMismatchError naming the ref, BlobNotFoundError */
export async function readDocument<S extends z.ZodType>(
  blobs: BlobStore,
  schema: S,
  ref: string,
): Promise<z.output<S>> {
  return parseDocument(schema, ref, await blobs.get(ref));
}

/** Reads a JSON document that was stored under a name; null when there is none. @throws ContractMismatchError naming it */
export async function findDocument<S extends z.ZodType>(
  blobs: BlobStore,
  schema: S,
  name: string,
): Promise<z.output<S> | null> {
  const data = await blobs.find(name);
  return data && parseDocument(schema, name, data);
}

/** @param id  ref or name of the document: an error names it. @throws ContractMismatchError */
export function parseDocument<S extends z.ZodType>(
  schema: S,
  id: string,
  data: Buffer,
): z.output<S> {
  let value: unknown;
  try {
    value = JSON.parse(data.toString('utf8'));
  } catch (cause) {
    throw new ContractMismatchError(`${id} is no JSON document`, { cause });
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new ContractMismatchError(`${id} is not of its kind: ${z.prettifyError(parsed.error)}`);
}

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
  const cache = new LRUCache<string, object>({ maxSize: 64 * mib });
  const keep = (id: string, value: unknown, size: number): void => {
    if (typeof value === 'object' && value !== null) cache.set(id, value, { size });
  };
  const parse = <S extends z.ZodType>(schema: S, id: string, data: Buffer): z.output<S> => {
    const value = parseDocument(schema, id, data);
    keep(id, value, data.length);
    return value;
  };
  return {
    async put(value) {
      const data = Buffer.from(JSON.stringify(value));
      const { ref } = await blobs.put(data);
      keep(ref, value, data.length);
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
