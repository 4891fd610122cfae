import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { Hono, type Context } from 'hono';
import {
  CallRequest,
  CreateSandboxRequest,
  ExecRequest,
  ForkRequest,
  RenewRequest,
  SnapshotRequest,
  VerifyRequest,
} from '../../contracts/denv';
import { DenvError, toDenvError } from '../errors';
import { sandboxIdOf } from '../ids';
import type { CallWork, ExecWork } from './calls';
import type { ServerContext } from './context';
import type { Files, WriteWork } from './files';
import { authorize, filesQuery, keyOf, parse, waitOf, within } from './http';
import type { Lifecycle } from './lifecycle';
import type { Preparation } from './preparation';
import type { Sandboxes } from './sandboxes';
import { toSandbox } from './views';
import type { Verify } from './verify';
import { addVersionRoutes } from './version-routes';
import type { Versions } from './versions';

export const API_VERSION = '1';
const DEFAULT_WAIT_S = 30;

export interface AppParts {
  context: ServerContext;
  sandboxes: Sandboxes;
  lifecycle: Lifecycle;
  preparation: Preparation;
  verify: Verify;
  files: Files;
  versions: Versions;
}

/** The API as a function of requests: routes, parsing and error bodies, no socket. */
export function createApp(parts: AppParts): { fetch(request: Request): Promise<Response> } {
  const { context, sandboxes, lifecycle, preparation, verify, files } = parts;
  const { operations, settings, driver, journal, archives } = context;
  const app = new Hono();

  app.onError((error, c) => {
    const known = toDenvError(error);
    if (known.code === 'internal')
      context.log.error({ err: error, path: c.req.path }, 'request failed');
    const retry = known.retryAfterS ? { 'retry-after': String(known.retryAfterS) } : {};
    return Response.json(known.toBody(), { status: known.status, headers: retry });
  });
  app.notFound((c) =>
    Response.json(
      new DenvError('invalid_request', `there is no ${c.req.method} ${c.req.path}`).toBody(),
      { status: 404 },
    ),
  );

  app.get('/healthz', () =>
    Response.json({
      ok: true,
      version: API_VERSION,
      pid: process.pid,
      sandboxes: sandboxes.all().length,
      operationsRunning: operations.running,
    }),
  );

  app.use('/v1/*', async (c, next) => {
    authorize(c.req.header('authorization'), settings.apiKey);
    await next();
  });

  app.post('/v1/sandboxes', async (c) => {
    const key = keyOf(c);
    const request = await parse(CreateSandboxRequest, c);
    const trees = await archives.hold(request.files ?? []);
    const { wait, leaseS: _lease, labels: _labels, ...effect } = request;
    return answer(key, wait, {
      kind: 'create',
      sandbox: sandboxIdOf(key),
      effect: { ...effect, files: trees },
      prepare: () => preparation.create(key, request, trees),
    });
  });

  app.put('/v1/trees/:sha256', async (c) => {
    const sha256 = c.req.param('sha256');
    if (!/^[0-9a-f]{64}$/.test(sha256)) {
      throw new DenvError('invalid_request', 'a tree is sent under its SHA-256 in hex');
    }
    await archives.receive(sha256, c.req.raw.body ?? Readable.from([]));
    return Response.json({});
  });

  app.get('/v1/envs', (c) => {
    const wanted = ['owner', 'rolloutId'].map((name) => [name, c.req.query(name)] as const);
    const found = sandboxes
      .all()
      .filter((row) => wanted.every(([n, v]) => v === undefined || row.labels[n] === v));
    return Response.json({ sandboxes: found.map(toSandbox) });
  });
  app.get('/v1/envs/:id', (c) => Response.json(toSandbox(sandboxes.get(c.req.param('id')))));

  app.post('/v1/envs/:id/exec', async (c) => {
    const sandboxId = c.req.param('id');
    const request = await parse(ExecRequest, c);
    const { wait, ...effect } = request;
    const work: ExecWork = { sandboxId, request };
    return answer(keyOf(c), wait, {
      kind: 'exec',
      sandbox: sandboxId,
      effect,
      prepare: () => ready(sandboxId, work),
    });
  });

  app.post('/v1/envs/:id/calls', async (c) => {
    const sandboxId = c.req.param('id');
    const request = await parse(CallRequest, c);
    const { wait, ...effect } = request;
    const work: CallWork = { sandboxId, request };
    return answer(keyOf(c), wait, {
      kind: 'call',
      sandbox: sandboxId,
      effect,
      prepare: () => ready(sandboxId, work),
    });
  });

  app.get('/v1/envs/:id/files', async (c) => {
    const { path, kind } = filesQuery(c);
    const data = await files.read(c.req.param('id'), path, kind);
    return new Response(new Uint8Array(data), {
      headers: {
        'content-type': kind === 'file' ? 'application/octet-stream' : 'application/x-tar',
      },
    });
  });
  app.put('/v1/envs/:id/files', async (c) => {
    const sandboxId = c.req.param('id');
    const query = filesQuery(c);
    const data = Buffer.from(await c.req.arrayBuffer());
    const work: WriteWork = { sandboxId, ...query, dataBase64: data.toString('base64') };
    return answer(keyOf(c), DEFAULT_WAIT_S * 2, {
      kind: 'write-files',
      sandbox: sandboxId,
      effect: { ...query, sha256: createHash('sha256').update(data).digest('hex') },
      prepare: () => ready(sandboxId, work),
    });
  });

  app.post('/v1/envs/:id/snapshot', async (c) => {
    const sandboxId = c.req.param('id');
    const { wait, labels, retentionS } = await parse(SnapshotRequest, c);
    return answer(keyOf(c), wait, {
      kind: 'snapshot',
      sandbox: sandboxId,
      effect: { retentionS },
      prepare: () => {
        sandboxes.get(sandboxId);
        return Promise.resolve({ sandboxId, labels, retentionS });
      },
    });
  });

  for (const [path, source] of sources()) {
    app.post(`${path}/fork`, async (c) => {
      const request = await parse(ForkRequest, c);
      const { wait, leaseS: _lease, labels: _labels, ...effect } = request;
      return answer(keyOf(c), wait, {
        kind: 'fork',
        sandbox: c.req.param('id') ?? '',
        effect,
        prepare: () => preparation.fork(source(c), request),
      });
    });
    app.post(`${path}/verify`, async (c) => {
      const request = await parse(VerifyRequest, c);
      const trees = await archives.hold(request.verifier.files ?? []);
      const { wait, labels: _labels, verifier, stop } = request;
      return answer(keyOf(c), wait, {
        kind: 'verify',
        sandbox: c.req.param('id') ?? '',
        effect: { stop, verifier: { ...verifier, files: trees } },
        prepare: () => verify.prepare(source(c), request, trees),
      });
    });
  }
  addVersionRoutes(app, parts.versions);

  app.post('/v1/envs/:id/renew', async (c) => {
    const { leaseS } = await parse(RenewRequest, c);
    const row = sandboxes.get(c.req.param('id'));
    sandboxes.touch(row, leaseS);
    return Response.json(toSandbox(row));
  });
  app.delete('/v1/envs/:id', async (c) => {
    await lifecycle.remove(c.req.param('id'));
    return Response.json({});
  });
  app.get('/v1/envs/:id/record', (c) => {
    const sandbox = c.req.param('id');
    const entries = journal.records(sandbox);
    if (entries.length === 0) sandboxes.get(sandbox);
    return Response.json({ sandbox, entries });
  });

  app.get('/v1/operations/:key', async (c) => {
    const key = c.req.param('key');
    const found = operations.find(key);
    if (!found) throw new DenvError('operation_not_found', `no operation has the key ${key}`);
    const outcome = await within(found.outcome, waitOf(c.req.query('wait')));
    if (!outcome) return Response.json({ key, kind: found.kind, state: 'running' });
    return Response.json({ key, kind: found.kind, state: 'done', ...outcome });
  });
  app.delete('/v1/operations/:key', async (c) => {
    await operations.cancel(c.req.param('key'));
    return Response.json({});
  });

  app.get('/v1/targets', async () => Response.json({ targets: await driver.rows() }));

  function ready<T>(sandboxId: string, work: T): Promise<T> {
    sandboxes.running(sandboxId);
    return Promise.resolve(work);
  }

  async function answer(
    key: string,
    wait: number | undefined,
    operation: {
      kind: string;
      sandbox: string;
      effect: unknown;
      prepare: () => Promise<unknown>;
    },
  ): Promise<Response> {
    const outcome = await within(operations.start({ key, ...operation }), wait ?? DEFAULT_WAIT_S);
    if (!outcome) return Response.json({ key, state: 'running' }, { status: 202 });
    return Response.json(outcome.body, { status: outcome.status });
  }

  return { fetch: async (request) => app.fetch(request) };
}

function sources(): [string, (c: Context) => { sandboxId: string } | { versionId: string }][] {
  return [
    ['/v1/envs/:id', (c) => ({ sandboxId: c.req.param('id') ?? '' })],
    ['/v1/versions/:id', (c) => ({ versionId: c.req.param('id') ?? '' })],
  ];
}
