import type { Socket } from 'node:net';
import { SSEClientTransport, SseError } from '@modelcontextprotocol/sdk/client/sse.js';
import { Agent, fetch as undiciFetch } from 'undici';
import type { ControllerConnection } from './controller';
import { unlessAborted } from './hud-dial';
import { connectionOverPeer } from './mcp-stream';
import { JsonRpcPeer } from './json-rpc';

/** MCP over the older HTTP transport with server-sent events: one stream for all answers, which ends with the session. */
export async function connectMcpSse(options: {
  connect: () => Promise<Socket>;
  url: string;
  authToken?: string;
  timeoutS: number;
  signal: AbortSignal;
}): Promise<ControllerConnection> {
  const dispatcher = new Agent({
    headersTimeout: 0,
    bodyTimeout: 0,
    keepAliveTimeout: 4000,
    connect: (_, done) => {
      options.connect().then(
        (socket) => done(null, socket),
        (error: unknown) => done(error instanceof Error ? error : new Error(String(error)), null),
      );
    },
  });
  const authorization: Record<string, string> =
    options.authToken === undefined ? {} : { authorization: `Bearer ${options.authToken}` };
  const transport = new SSEClientTransport(new URL(options.url), {
    requestInit: { headers: authorization },
    fetch: async (target, init) => {
      const response = await undiciFetch(target, {
        method: init?.method,
        headers: { ...Object.fromEntries(new Headers(init?.headers)), ...authorization },
        body: typeof init?.body === 'string' ? init.body : undefined,
        signal: init?.signal,
        dispatcher,
      });
      return new Response(response.body as ReadableStream<Uint8Array> | null, {
        status: response.status,
        headers: Object.fromEntries(response.headers),
      });
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
    return await connectionOverPeer(peer, end, (v) => transport.setProtocolVersion(v), options);
  } catch (error) {
    end('the controller was not reached');
    throw error;
  }
}
