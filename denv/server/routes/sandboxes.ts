import { Readable } from 'node:stream';
import type { Hono } from 'hono';
import { CreateSandboxRequest, RenewRequest } from '../../../contracts/denv';
import { DenvError } from '../../errors';
import { sandboxIdOf } from '../../ids';
import type { ServerContext } from '../context';
import { readKey, parseBody } from '../http';
import type { Lifecycle } from '../lifecycle';
import type { Preparation } from '../preparation';
import type { Sandboxes } from '../sandboxes';
import { toSandbox } from '../views';
import { answerOperation } from './keyed';

/** Sandboxes from their create to their record, and the file trees that creates name. */
export function addSandboxRoutes(
  app: Hono,
  { operations, archives, journal }: ServerContext,
  sandboxes: Sandboxes,
  { lifecycle, preparation }: { lifecycle: Lifecycle; preparation: Preparation },
): void {
  app.post('/v1/sandboxes', async (c) => {
    const key = readKey(c);
    const request = await parseBody(CreateSandboxRequest, c);
    const trees = await archives.hold(request.files ?? []);
    const { wait, leaseS: _lease, labels: _labels, ...effect } = request;
    const operation = {
      kind: 'create',
      sandbox: sandboxIdOf(key),
      effect: { ...effect, files: trees },
      prepare: () => preparation.create(key, request, trees),
    };
    return answerOperation(c, operations, operation, wait);
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

  app.post('/v1/envs/:id/renew', async (c) => {
    const { leaseS } = await parseBody(RenewRequest, c);
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
}
