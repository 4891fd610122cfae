import type { FileTree } from '../contracts/denv';
import type { FilesRef } from '../contracts/task';
import { DenvError } from '../denv/errors';
import type { BlobStore } from '../stores/blobs';

/**
 * Sends a request with its file trees by digest, which is what their blob refs are, and with the tars themselves only to a
 * server that does not hold them: the first rollout of a task uploads them for all.
 */
export async function sendTrees<T>(
  blobs: BlobStore,
  files: FilesRef[],
  send: (trees: { files?: FileTree[] }) => Promise<T>,
): Promise<T> {
  if (files.length === 0) return send({});
  try {
    return await send({
      files: files.map(({ to, ref }) => ({ to, sha256: ref.replace(/^sha256:/, '') })),
    });
  } catch (error) {
    if (!(error instanceof DenvError) || error.code !== 'files_missing') throw error;
  }
  const whole = files.map(async ({ to, ref }) => ({
    to,
    tarBase64: (await blobs.get(ref)).toString('base64'),
  }));
  return send({ files: await Promise.all(whole) });
}
