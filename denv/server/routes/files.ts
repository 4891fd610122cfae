import { createHash } from 'node:crypto';
import type { Hono } from 'hono';
import { type Files, MAX_FILES_BYTES, type WriteWork } from '../files';
import { parseFilesQuery, limitBody } from '../http';
import type { Operations } from '../operations';
import type { Sandboxes } from '../sandboxes';
import { answerOperation, DEFAULT_WAIT_S } from './keyed';

/** Files of a running sandbox, one at a time or a tree as a tar archive. */
export function addFileRoutes(
  app: Hono,
  operations: Operations,
  sandboxes: Sandboxes,
  files: Files,
): void {
  app.get('/v1/envs/:id/files', async (c) => {
    const { path, kind } = parseFilesQuery(c);
    const data = await files.read(c.req.param('id'), path, kind);
    const type = kind === 'file' ? 'application/octet-stream' : 'application/x-tar';
    return new Response(new Uint8Array(data), { headers: { 'content-type': type } });
  });

  app.put('/v1/envs/:id/files', limitWrite, async (c) => {
    const sandboxId = c.req.param('id');
    const query = parseFilesQuery(c);
    const data = Buffer.from(await c.req.arrayBuffer());
    const operation = {
      kind: 'write-files',
      sandbox: sandboxId,
      effect: { ...query, sha256: createHash('sha256').update(data).digest('hex') },
      prepare: async (): Promise<WriteWork> => {
        sandboxes.running(sandboxId);
        return { sandboxId, ...query, dataBase64: data.toString('base64') };
      },
    };
    return answerOperation(c, operations, operation, DEFAULT_WAIT_S * 2);
  });
}

/** What is written is kept in memory and in the journal until it is there. */
const limitWrite = limitBody(
  MAX_FILES_BYTES,
  'send a larger tree by PUT /v1/trees and name it in a create',
);
