import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { WebSocket } from 'ws';
import { z } from 'zod';
import { ErrorBody } from '../../contracts/denv';
import type { AttachStart } from '../../contracts/denv';
import { DenvError } from '../../denv/errors';
import type { DenvPlace } from '../api/connect';

/** A command in a sandbox on streams of this process. */
export interface Attached {
  /** Bytes for its stdin. Resolves when they have left. */
  send(data: Buffer): Promise<void>;
  /** No more stdin. */
  eof(): void;
  resize(size: { cols: number; rows: number }): void;
  /** Null when it was killed. @throws DenvError when the stream ended before the command */
  ended: Promise<{ exitCode: number | null }>;
  /** Lets go of it, which ends the command. */
  close(): void;
}

/** What comes back. Each is waited for before more is read. */
export interface AttachOutputs {
  stdout(data: Buffer): Promise<void>;
  stderr(data: Buffer): Promise<void>;
}

const TextMessage = z.union([
  z.object({ started: z.literal(true) }),
  z.object({ exit: z.object({ exitCode: z.number().int().nullable() }) }),
  ErrorBody,
]);

/**
 * Starts a command in a sandbox and carries its streams, for as long as both ends live; the sandbox's lease is renewed
 * meanwhile.
 * @throws DenvError when it cannot be started
 * @see contracts/denv.ts, AttachStart
 */
export async function attach(
  { server, apiKey }: DenvPlace,
  sandboxId: string,
  start: AttachStart,
  outputs: AttachOutputs,
): Promise<Attached> {
  const address = `${server.replace(/^http/, 'ws').replace(/\/+$/, '')}/v1/envs/${encodeURIComponent(sandboxId)}/attach`;
  const ws = new WebSocket(address, { headers: { authorization: `Bearer ${apiKey}` } });
  const started = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<{ exitCode: number | null }>();
  ended.promise.catch(() => undefined); // Whoever waits for the start may never come to wait for the end.
  const fail = (error: Error): void => {
    started.reject(error);
    ended.reject(error);
  };
  let work = Promise.resolve();
  const inOrder = (next: () => Promise<void> | void): void => {
    work = work.then(next).catch(fail);
  };
  ws.on('open', () => ws.send(JSON.stringify(start)));
  ws.on('message', (data: Buffer, isBinary) => {
    if (!isBinary) return inOrder(() => said(data.toString()));
    ws.pause();
    inOrder(async () => {
      const bytes = data.subarray(1);
      await (data[0] === 2 ? outputs.stderr(bytes) : outputs.stdout(bytes));
      ws.resume();
    });
  });
  ws.on('unexpected-response', (_request, response: IncomingMessage) => {
    void refusalOf(response)
      .then(fail)
      .finally(() => ws.terminate());
  });
  ws.on('error', (error) =>
    fail(new DenvError('unavailable', `no stream from ${address}: ${error.message}`)),
  );
  ws.on('close', () =>
    inOrder(() => fail(new DenvError('unavailable', `the stream from ${address} broke off`))),
  );

  function said(message: string): void {
    const parsed = TextMessage.parse(JSON.parse(message));
    if ('started' in parsed) started.resolve();
    else if ('exit' in parsed) ended.resolve(parsed.exit);
    else fail(new DenvError(parsed.error.code, parsed.error.message));
  }

  await started.promise;
  return {
    send: (data) =>
      new Promise((resolve) => {
        ws.send(data, { binary: true }, () => resolve()); // A stream that broke says so by its end.
      }),
    eof: () => ws.send(JSON.stringify({ eof: true }), () => undefined),
    resize: (size) => ws.send(JSON.stringify({ resize: size }), () => undefined),
    ended: ended.promise,
    close: () => ws.terminate(),
  };
}

async function refusalOf(response: IncomingMessage): Promise<DenvError> {
  const body = await text(response);
  try {
    const { error } = ErrorBody.parse(JSON.parse(body));
    return new DenvError(error.code, error.message);
  } catch {
    return new DenvError(
      'unavailable',
      `${response.statusCode} in answer to attach: ${body.slice(0, 200)}`,
    );
  }
}
