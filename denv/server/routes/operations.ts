import type { Hono } from 'hono';
import { DenvError } from '../../errors';
import { parseWait, within } from '../http';
import type { Operations } from '../operations';

/** Operations by their key: their outcome, waited for, and their cancellation. */
export function addOperationRoutes(app: Hono, operations: Operations): void {
  app.get('/v1/operations/:key', async (c) => {
    const key = c.req.param('key');
    const found = operations.find(key);
    if (!found) throw new DenvError('operation_not_found', `no operation has the key ${key}`);
    const outcome = await within(found.outcome, parseWait(c.req.query('wait')));
    if (!outcome) return Response.json({ key, kind: found.kind, state: 'running' });
    return Response.json({ key, kind: found.kind, state: 'done', ...outcome });
  });

  app.delete('/v1/operations/:key', async (c) => {
    await operations.cancel(c.req.param('key'));
    return Response.json({});
  });
}
