import type { Hono } from 'hono';
import type { ServerContext } from '../context';
import type { Sandboxes } from '../sandboxes';

const API_VERSION = '1';

/** Whether the server answers: the one route that needs no API key. */
export function addHealthRoute(app: Hono, context: ServerContext, sandboxes: Sandboxes): void {
  app.get('/healthz', () =>
    Response.json({
      ok: true,
      version: API_VERSION,
      pid: process.pid,
      sandboxes: sandboxes.all().length,
      operationsRunning: context.operations.running,
    }),
  );
}

/** What each target of the server can do. */
export function addTargetRoute(app: Hono, { driver }: ServerContext): void {
  app.get('/v1/targets', async () => Response.json({ targets: await driver.rows() }));
}
