import type { Hono } from 'hono';
import { VerifyRequest } from '../../../contracts/denv';
import type { ServerContext } from '../context';
import { parseBody } from '../http';
import type { Verify } from '../verify';
import { answerOperation } from './keyed';
import { sources } from './sources';

/** The verify of a sandbox, which freezes it first, or of a kept version. */
export function addVerifyRoutes(
  app: Hono,
  { operations, archives }: ServerContext,
  verify: Verify,
): void {
  for (const { path, toSource } of sources) {
    app.post(`${path}/:id/verify`, async (c) => {
      const id = c.req.param('id');
      const request = await parseBody(VerifyRequest, c);
      const trees = await archives.hold(request.verifier.files ?? []);
      const { wait, labels: _labels, verifier, stop } = request;
      const operation = {
        kind: 'verify',
        sandbox: id,
        effect: { stop, verifier: { ...verifier, files: trees } },
        prepare: () => verify.prepare(toSource(id), request, trees),
      };
      return answerOperation(c, operations, operation, wait);
    });
  }
}
