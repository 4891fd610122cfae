import type { Socket } from 'node:net';
import { Agent, fetch as undiciFetch } from 'undici';
import { errnoOf } from '../../../machine/errno';
import { ControllerLost } from '../controller';

/** HTTP over connections that we make ourselves, with no time limits but a call's own. */
export function agentOver(connect: () => Promise<Socket>, keepAliveMs: number): Agent {
  return new Agent({
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: keepAliveMs,
    connect: (_, done) => {
      connect().then(
        (socket) => done(null, socket),
        (error: unknown) => done(error instanceof Error ? error : new Error(String(error)), null),
      );
    },
  });
}

/** The connection that showed a port to be open, then new ones. */
export function firstThen(first: Socket, connect: () => Promise<Socket>): () => Promise<Socket> {
  let unused: Socket | null = first;
  return () => {
    const socket = unused;
    unused = null;
    return socket && !socket.destroyed ? Promise.resolve(socket) : connect();
  };
}

/** @throws ControllerLost */
export async function fetchOver(
  dispatcher: Agent,
  target: string | URL,
  init: RequestInit | undefined,
): Promise<{ status: ResponseInit; body: ReadableStream<Uint8Array> | null }> {
  const response = await undiciFetch(target, {
    method: init?.method,
    headers: Object.fromEntries(new Headers(init?.headers)),
    body: typeof init?.body === 'string' ? init.body : undefined,
    signal: init?.signal,
    dispatcher,
  }).catch((error: unknown) => {
    throw unreached(error);
  });
  const { status, statusText, headers } = response;
  return {
    status: { status, statusText, headers: Object.fromEntries(headers) },
    body: response.body as ReadableStream<Uint8Array> | null,
  };
}

export const bearer = (token: string | undefined): Record<string, string> =>
  token === undefined ? {} : { authorization: `Bearer ${token}` };

/** A request that never left its socket had no effect; any other break leaves that open. */
function unreached(error: unknown): ControllerLost {
  const cause = error instanceof Error ? error.cause : undefined;
  const message = cause instanceof Error ? cause.message : String(error);
  return new ControllerLost(message, errnoOf(cause) !== 'ECONNREFUSED', cause);
}
