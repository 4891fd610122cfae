import type { Socket } from 'node:net';
import { SSEClientTransport, SseError } from '@modelcontextprotocol/sdk/client/sse.js';
import type { ControllerConnection } from '../controller';
import { unlessAborted } from '../unless-aborted';
import { connectOverStream } from './handshake';
import { JsonRpcPeer } from './json-rpc';
import { agentOver, bearer, fetchOver } from './fetch';

/** Less than the five seconds after which Python's usual HTTP server ends an idle connection. */
const KEEP_ALIVE_MS = 4000;

/** MCP over the older HTTP transport with server-sent events: one stream for all answers, which ends with the session. */
export async function connectMcpSse(options: {
  connect: () => Promise<Socket>;
  url: string;
  authToken?: string;
  timeoutS: number;
  signal: AbortSignal;
}): Promise<ControllerConnection> {
  const dispatcher = agentOver(options.connect, KEEP_ALIVE_MS);
  const authorization = bearer(options.authToken);
  const transport = new SSEClientTransport(new URL(options.url), {
    requestInit: { headers: authorization },
    fetch: async (target, init) => {
      const headers = { ...Object.fromEntries(new Headers(init?.headers)), ...authorization };
      const { status, body } = await fetchOver(dispatcher, target, { ...init, headers });
      return new Response(body, status);
    },
  });
  const peer = new JsonRpcPeer(transport);
  // A new stream would be a new session: what was out gets no answer any more.
  transport.onerror = (error) => {
    if (error instanceof SseError) end(`the controller's event stream broke: ${error.message}`);
  };
  const end = (message: string) => {
    peer.fail(message);
    void transport.close();
    void dispatcher.destroy();
  };
  try {
    await unlessAborted(transport.start(), options.signal);
    return await connectOverStream(peer, end, (v) => transport.setProtocolVersion(v), options);
  } catch (error) {
    end('the controller was not reached');
    throw error;
  }
}
