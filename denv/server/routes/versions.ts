import type { Hono } from 'hono';
import { RetainRequest } from '../../../contracts/denv';
import { DenvError } from '../../errors';
import { parseFilesQuery, parseBody } from '../http';
import type { Versions } from '../versions';

const labels = ['owner', 'rolloutId'];

/** Kept versions: read, kept longer, deleted. Their forks and verifies lie beside those of sandboxes. */
export function addVersionRoutes(app: Hono, versions: Versions): void {
  app.get('/v1/versions', async (c) => {
    const given = labels.flatMap((name) => {
      const value = c.req.query(name);
      return value === undefined ? [] : [[name, value] as const];
    });
    const wanted = { labels: Object.fromEntries(given), sandbox: c.req.query('sandbox') ?? null };
    return Response.json({ versions: await versions.list(wanted, asksSize(c.req.query('size'))) });
  });
  app.get('/v1/versions/:id', async (c) =>
    Response.json(await versions.get(c.req.param('id'), asksSize(c.req.query('size')))),
  );
  app.delete('/v1/versions/:id', async (c) => {
    await versions.remove(c.req.param('id'));
    return Response.json({});
  });
  app.post('/v1/versions/:id/retain', async (c) => {
    const { retentionS } = await parseBody(RetainRequest, c);
    return Response.json(await versions.retain(c.req.param('id'), retentionS));
  });
  app.get('/v1/versions/:a/diff/:b', async (c) =>
    Response.json(await versions.diff(c.req.param('a'), c.req.param('b'))),
  );
  app.get('/v1/versions/:id/files', async (c) => {
    const { path, kind } = parseFilesQuery(c);
    if (kind !== 'file')
      throw new DenvError('invalid_request', 'kind: only `file` can be read of a version');
    const data = await versions.readFile(c.req.param('id'), path);
    return new Response(new Uint8Array(data), {
      headers: { 'content-type': 'application/octet-stream' },
    });
  });
}

function asksSize(text: string | undefined): boolean {
  if (text === undefined || text === '0') return false;
  if (text === '1') return true;
  throw new DenvError('invalid_request', 'size: 0 or 1');
}
