import type { FileTree } from '../../contracts/denv';
import type { FilesRef } from '../../contracts/task';
import type { DenvClient } from '../../denv/client';
import { DenvError } from '../../denv/errors';
import type { BlobStore } from '../../stores/blobs';

const digestOf = (ref: string): string => ref.replace(/^sha256:/, '');

/**
 * Sends a request with its file trees by digest, which is what their blob refs are. A server that does not hold some is sent
 * those tars, and then asked again: the first rollout of a task uploads them for all.
 */
export async function sendTrees<T>(
  parts: { denv: Pick<DenvClient, 'uploadTree'>; blobs: BlobStore; signal: AbortSignal },
  files: FilesRef[],
  send: (trees: { files?: FileTree[] }) => Promise<T>,
): Promise<T> {
  if (files.length === 0) return send({});
  const { denv, blobs, signal } = parts;
  const trees = { files: files.map(({ to, ref }) => ({ to, sha256: digestOf(ref) })) };
  try {
    return await send(trees);
  } catch (error) {
    if (!(error instanceof DenvError) || error.code !== 'files_missing') throw error;
    for (const ref of missingOf(error, files)) {
      await denv.uploadTree(digestOf(ref), await blobs.stream(ref), { signal });
    }
    return send(trees);
  }
}

/** Those that the server named, each once. */
function missingOf(error: DenvError, files: FilesRef[]): string[] {
  const named = error.details?.sha256;
  const refs = [...new Set(files.map(({ ref }) => ref))];
  return Array.isArray(named) ? refs.filter((ref) => named.includes(digestOf(ref))) : refs;
}
