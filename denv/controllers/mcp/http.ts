import type { Socket } from 'node:net';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Agent } from 'undici';
import { DenvError } from '../../errors';
import { type ControllerCall, type ControllerConnection, ControllerLost } from '../controller';
import { JsonRpcPeer } from './json-rpc';
import { initialize } from './handshake';
import { agentOver, bearer, fetchOver, firstThen } from './fetch';

export interface McpHttpOptions {
  /** A TCP connection to the controller's port, inside the sandbox. */
  connect: () => Promise<Socket>;
  port: number;
  /** With its query, if it has one. */
  path: string;
  /** Sent as a bearer token with every request. */
  authToken?: string;
  /** How long an idle connection is kept: less than the controller keeps it, or a request may meet its end. */
  keepAliveMs?: number;
}

/**
 * MCP over Streamable HTTP. The session id outlives this process, answers do not: what was out when the server died is
 * unknown.
 */
export async function connectMcpHttp(
  options: McpHttpOptions & { timeoutS: number; signal: AbortSignal },
): Promise<ControllerConnection> {
  const first = await waitForPort(options);
  const session = openSession(
    { ...options, connect: firstThen(first, options.connect) },
    null,
    null,
  );
  const protocolVersion = await initialize(session.peer, options.timeoutS, options.signal);
  session.transport.setProtocolVersion(protocolVersion);
  // Its answer is what makes a controller ready; only calls wait until it has been told so.
  session.notified = session.peer.notify('notifications/initialized');
  return connectionOver(options, session, protocolVersion);
}

/** Continues a session that an earlier server process opened. */
export function resumeMcpHttp(
  options: McpHttpOptions,
  state: { sessionId: string | null; protocolVersion: string },
): ControllerConnection {
  const session = openSession(options, state.sessionId, state.protocolVersion);
  return connectionOver(options, session, state.protocolVersion);
}

interface Session {
  transport: StreamableHTTPClientTransport;
  peer: JsonRpcPeer;
  dispatcher: Agent;
  notified: Promise<void>;
}

function openSession(
  options: McpHttpOptions,
  sessionId: string | null,
  protocolVersion: string | null,
): Session {
  const dispatcher = agentOver(options.connect, options.keepAliveMs ?? 60_000);
  const url = new URL(`http://127.0.0.1:${options.port}${options.path}`);
  const lose = (callId: string) =>
    peer.lose(callId, 'the controller ended the connection without an answer');
  const transport = new StreamableHTTPClientTransport(url, {
    sessionId: sessionId ?? undefined,
    requestInit: { headers: bearer(options.authToken) },
    fetch: (target, init) => fetchFrom(dispatcher, target, init, lose),
  });
  if (protocolVersion !== null) transport.setProtocolVersion(protocolVersion);
  const peer = new JsonRpcPeer(transport);
  void transport.start();
  return { transport, peer, dispatcher, notified: Promise.resolve() };
}

function connectionOver(
  options: McpHttpOptions,
  opened: Session,
  openedVersion: string,
): ControllerConnection {
  let session = opened;
  let protocolVersion = openedVersion;

  async function reopen(call: ControllerCall): Promise<void> {
    session.peer.fail('the controller has forgotten the session');
    session = openSession(options, null, null);
    protocolVersion = await initialize(session.peer, call.timeoutS, call.signal);
    session.transport.setProtocolVersion(protocolVersion);
    session.notified = session.peer.notify('notifications/initialized');
    await session.notified;
  }

  return {
    async call(call) {
      try {
        await session.notified;
        return await session.peer.request(call);
      } catch (error) {
        if (!isForgotten(error)) throw error;
        // 404 means that the call was refused before it had any effect: a new session may ask it anew.
        await reopen(call);
        return session.peer.request(call);
      }
    },
    awaitAnswer: null,
    state: () => ({ sessionId: session.transport.sessionId ?? null, protocolVersion }),
    close: () => {
      session.peer.fail('the connection to the controller was closed');
      void session.transport.close();
      void session.dispatcher.destroy();
    },
  };
}

function isForgotten(error: unknown): boolean {
  const cause = error instanceof ControllerLost ? error.cause : error;
  return cause instanceof Error && 'code' in cause && cause.code === 404;
}

/** Fetch through our own sockets, telling when the answer stream of a call ends. */
async function fetchFrom(
  dispatcher: Agent,
  target: string | URL,
  init: RequestInit | undefined,
  lose: (callId: string) => void,
): Promise<Response> {
  // The stream for what a controller sends unasked: nothing there concerns a client without capabilities.
  if (init?.method === 'GET') return new Response(null, { status: 405 });
  const { status, body } = await fetchOver(dispatcher, target, init);
  const callId = parseCallId(init?.body);
  const ok = status.status === undefined || status.status < 300;
  const watched = body && callId !== null && ok ? watchEnd(body, () => lose(callId)) : body;
  return new Response(watched, status);
}

function parseCallId(body: unknown): string | null {
  if (typeof body !== 'string') return null;
  const id: unknown = (JSON.parse(body) as { id?: unknown }).id; // our own request, just serialized
  return typeof id === 'string' ? id : null;
}

/**
 * Passes a stream on and says when it ended, broken or not, one turn after its last data was read. A stream with event ids
 * can be resumed by the transport, so its end says nothing.
 */
function watchEnd(
  stream: ReadableStream<Uint8Array>,
  ended: () => void,
): ReadableStream<Uint8Array> {
  const reader = stream.getReader();
  let resumable = false;
  const tell = () => {
    if (!resumable) setTimeout(ended, 50);
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) {
          tell();
          controller.close();
          return;
        }
        if (/^id:/m.test(Buffer.from(value).toString('latin1'))) resumable = true;
        controller.enqueue(value);
      } catch (error) {
        tell();
        controller.error(error);
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}

/** Readiness is an answer: asks again until the port is open. @throws DenvError controller_failed */
async function waitForPort(options: {
  connect: () => Promise<Socket>;
  timeoutS: number;
  signal: AbortSignal;
}): Promise<Socket> {
  const deadline = Date.now() + options.timeoutS * 1000;
  // Soon at first, and for a controller that takes its time at the cost of a few milliseconds in a second.
  for (let pauseMs = 6; ; pauseMs = Math.min(pauseMs * 1.02, 50)) {
    options.signal.throwIfAborted();
    const socket = await options.connect().catch(() => null);
    if (socket) return socket;
    if (Date.now() > deadline) {
      throw new DenvError(
        'controller_failed',
        `the controller did not open its port within ${options.timeoutS} s`,
      );
    }
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
  }
}
