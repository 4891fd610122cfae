import type { Hono } from 'hono';
import { ForkRequest, SnapshotRequest } from '../../../contracts/denv';
import { parseBody } from '../http';
import type { Operations } from '../operations';
import type { Preparation } from '../preparation';
import type { Sandboxes, SnapshotWork } from '../sandboxes';
import { answerOperation } from './keyed';
import { sources } from './sources';

/** Versions taken of a sandbox, and sandboxes made from a version or from another sandbox. */
export function addForkRoutes(
  app: Hono,
  operations: Operations,
  sandboxes: Sandboxes,
  preparation: Preparation,
): void {
  app.post('/v1/envs/:id/snapshot', async (c) => {
    const sandboxId = c.req.param('id');
    const { wait, labels, retentionS } = await parseBody(SnapshotRequest, c);
    const operation = {
      kind: 'snapshot',
      sandbox: sandboxId,
      effect: { retentionS },
      prepare: async (): Promise<SnapshotWork> => {
        sandboxes.get(sandboxId);
        return { sandboxId, labels, retentionS };
      },
    };
    return answerOperation(c, operations, operation, wait);
  });

  for (const { path, toSource } of sources) {
    app.post(`${path}/:id/fork`, async (c) => {
      const id = c.req.param('id');
      const request = await parseBody(ForkRequest, c);
      const { wait, leaseS: _lease, labels: _labels, ...effect } = request;
      const operation = {
        kind: 'fork',
        sandbox: id,
        effect,
        prepare: () => preparation.fork(toSource(id), request),
      };
      return answerOperation(c, operations, operation, wait);
    });
  }
}
