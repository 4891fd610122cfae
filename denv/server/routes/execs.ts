import type { Hono } from 'hono';
import { CallRequest, ExecRequest } from '../../../contracts/denv';
import type { CallWork, ExecWork } from '../calls';
import { parseBody } from '../http';
import type { Operations } from '../operations';
import type { Sandboxes } from '../sandboxes';
import { answerOperation } from './keyed';

/** Commands in a running sandbox, and calls of its controller. */
export function addExecRoutes(app: Hono, operations: Operations, sandboxes: Sandboxes): void {
  app.post('/v1/envs/:id/exec', async (c) => {
    const sandboxId = c.req.param('id');
    const request = await parseBody(ExecRequest, c);
    const { wait, ...effect } = request;
    const prepare = async (): Promise<ExecWork> => {
      sandboxes.running(sandboxId);
      return { sandboxId, request };
    };
    return answerOperation(
      c,
      operations,
      { kind: 'exec', sandbox: sandboxId, effect, prepare },
      wait,
    );
  });

  app.post('/v1/envs/:id/calls', async (c) => {
    const sandboxId = c.req.param('id');
    const request = await parseBody(CallRequest, c);
    const { wait, ...effect } = request;
    const prepare = async (): Promise<CallWork> => {
      sandboxes.running(sandboxId);
      return { sandboxId, request };
    };
    return answerOperation(
      c,
      operations,
      { kind: 'call', sandbox: sandboxId, effect, prepare },
      wait,
    );
  });
}
