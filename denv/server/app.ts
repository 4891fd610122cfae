import { Hono } from 'hono';
import type { Logger } from 'pino';
import { DenvError, toDenvError } from '../errors';
import type { ServerContext } from './context';
import type { Files } from './files';
import { authorize, limitBody } from './http';
import type { Lifecycle } from './lifecycle';
import type { Preparation } from './preparation';
import { addExecRoutes } from './routes/execs';
import { addFileRoutes } from './routes/files';
import { addForkRoutes } from './routes/forks';
import { addHealthRoute, addTargetRoute } from './routes/health';
import { addOperationRoutes } from './routes/operations';
import { addSandboxRoutes } from './routes/sandboxes';
import { addVerifyRoutes } from './routes/verify';
import { addVersionRoutes } from './routes/versions';
import type { Sandboxes } from './sandboxes';
import type { Verify } from './verify';
import type { Versions } from './versions';

export interface AppParts {
  context: ServerContext;
  sandboxes: Sandboxes;
  lifecycle: Lifecycle;
  preparation: Preparation;
  verify: Verify;
  files: Files;
  versions: Versions;
}

const MAX_JSON_BYTES = 256 * 1024 * 1024;

/** The API as a function of requests: routes, parsing and error bodies, no socket. */
export function createApp(parts: AppParts): { fetch(request: Request): Promise<Response> } {
  const { context, sandboxes, preparation } = parts;
  const { operations, settings } = context;
  const app = new Hono();
  answerErrors(app, context.log);
  addHealthRoute(app, context, sandboxes);
  app.use('/v1/*', async (c, next) => {
    authorize(c.req.header('authorization'), settings.apiKey);
    await next();
  });
  app.post('/v1/*', limitBody(MAX_JSON_BYTES, 'send large file trees by PUT /v1/trees'));

  addSandboxRoutes(app, context, sandboxes, parts);
  addExecRoutes(app, operations, sandboxes);
  addFileRoutes(app, operations, sandboxes, parts.files);
  addForkRoutes(app, operations, sandboxes, preparation);
  addVerifyRoutes(app, context, parts.verify);
  addVersionRoutes(app, parts.versions);
  addOperationRoutes(app, operations);
  addTargetRoute(app, context);
  return { fetch: async (request) => app.fetch(request) };
}

function answerErrors(app: Hono, log: Logger): void {
  app.onError((error, c) => {
    const known = toDenvError(error);
    if (known.code === 'internal') log.error({ err: error, path: c.req.path }, 'request failed');
    const retry = known.retryAfterS ? { 'retry-after': String(known.retryAfterS) } : {};
    return Response.json(known.toBody(), { status: known.status, headers: retry });
  });
  app.notFound((c) =>
    Response.json(
      new DenvError('invalid_request', `there is no ${c.req.method} ${c.req.path}`).toBody(),
      { status: 404 },
    ),
  );
}
