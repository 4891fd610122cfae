import { createHash, timingSafeEqual } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { z } from 'zod';
import { DenvError } from '../errors';
import type { Outcome } from './operations';

/** What every route does with a request: its key, its body, its wait. */

/** The outcome, or null when it is not there within `waitS`. */
export async function within(outcome: Promise<Outcome>, waitS: number): Promise<Outcome | null> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<null>((resolve) => {
    timer = setTimeout(() => resolve(null), waitS * 1000);
  });
  // Whoever loses the race still has its rejection handled.
  outcome.catch(() => undefined);
  try {
    return await Promise.race([outcome, timeout]);
  } finally {
    clearTimeout(timer);
  }
}

export function parseWait(text: string | undefined): number {
  const wait = Number(text ?? 0);
  if (!(wait >= 0 && wait <= 60)) throw new DenvError('invalid_request', 'wait: 0 to 60 seconds');
  return wait;
}

export function readKey(c: Context): string {
  const key = c.req.header('idempotency-key');
  if (!key || key.length > 512) {
    throw new DenvError(
      'invalid_request',
      'header Idempotency-Key: 1 to 512 characters are needed',
    );
  }
  return key;
}

export async function parseBody<S extends z.ZodType>(schema: S, c: Context): Promise<z.output<S>> {
  let body: unknown;
  try {
    body = await c.req.json();
  } catch {
    throw new DenvError('invalid_request', 'the body is not JSON');
  }
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  throw new DenvError('invalid_request', z.prettifyError(parsed.error), {
    details: { issues: parsed.error.issues.map((i) => ({ path: i.path, message: i.message })) },
  });
}

/** Refuses a body of more than `maxBytes`, before it is read where its length is told. */
export function limitBody(maxBytes: number, instead: string): MiddlewareHandler {
  return bodyLimit({
    maxSize: maxBytes,
    onError: () => {
      const message = `the body is larger than ${maxBytes} bytes; ${instead}`;
      throw new DenvError('invalid_request', message);
    },
  });
}

export function parseFilesQuery(c: Context): { path: string; kind: 'file' | 'tree' } {
  const path = c.req.query('path') ?? '';
  const kind = c.req.query('kind') ?? 'file';
  if (!path.startsWith('/'))
    throw new DenvError('invalid_request', 'path: an absolute path is needed');
  if (kind !== 'file' && kind !== 'tree') {
    throw new DenvError('invalid_request', 'kind: `file` or `tree`');
  }
  return { path, kind };
}

export function authorize(header: string | undefined, apiKey: string): void {
  if (!header) {
    throw new DenvError(
      'unauthorized',
      'no API key: send `Authorization: Bearer dak_…` (DENV_API_KEY)',
    );
  }
  const given = createHash('sha256').update(header).digest();
  const wanted = createHash('sha256').update(`Bearer ${apiKey}`).digest();
  if (!timingSafeEqual(given, wanted)) {
    throw new DenvError(
      'unauthorized',
      'wrong API key: this server does not know it (DENV_API_KEY)',
    );
  }
}
