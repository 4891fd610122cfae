import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { DenvError } from '../../errors';
import {
  type CallAnswer,
  cancelledAnswer,
  type ControllerCall,
  type ControllerConnection,
  ControllerLost,
} from '../controller';
import { unlessAborted } from '../unless-aborted';
import type { Binding, Tool, Toolset } from './capabilities';
import { firstThen } from '../mcp/fetch';
import { connectMcpHttp } from '../mcp/http';
import { connectMcpSse } from '../mcp/sse';
import { connectMcpWebSocket } from '../mcp/websocket';

const OPEN_TIMEOUT_S = 30;
const DIALS = 3;
const DIAL_PAUSE_MS = 250;
/** Python's usual HTTP server ends a connection that was idle for five seconds. */
const KEEP_ALIVE_MS = 4000;

/** The tools of one MCP capability. Its session is opened at the first call and kept. */
export class McpToolset implements Toolset {
  private opening: Promise<ControllerConnection> | null = null;

  constructor(
    readonly binding: Binding,
    private readonly tunnel: () => Promise<Socket>,
  ) {}

  async list(call: ControllerCall): Promise<{ tools: Tool[] } | { answer: CallAnswer }> {
    const tools: Tool[] = [];
    let cursor: unknown;
    for (let page = 1; ; page += 1) {
      const answer = await this.ask({
        ...call,
        callId: `${call.callId}-${page}`,
        method: 'tools/list',
        params: cursor === undefined ? {} : { cursor },
      });
      if (answer.kind !== 'result') return { answer };
      const { tools: more, nextCursor } = answer.result;
      if (Array.isArray(more)) tools.push(...(more as Tool[])); // as the MCP server sent them
      if (nextCursor === undefined || nextCursor === null) return { tools };
      cursor = nextCursor;
    }
  }

  call(call: ControllerCall, name: string): Promise<CallAnswer> {
    return this.ask({ ...call, params: { ...call.params, name } });
  }

  close(): void {
    const opening = this.opening;
    this.opening = null;
    void opening?.then(
      (connection) => connection.close(),
      () => undefined,
    );
  }

  private async ask(call: ControllerCall): Promise<CallAnswer> {
    const opening = this.opening ?? this.open();
    this.opening = opening;
    let connection;
    try {
      connection = await unlessAborted(opening, call.signal);
    } catch (error) {
      if (call.signal.aborted) return cancelledAnswer;
      this.close();
      throw this.unreached(error);
    }
    try {
      return await connection.call(call);
    } catch (error) {
      // What is one stream ended with it; over HTTP each call has its own, and the session goes on.
      if (this.binding.params['transport'] !== 'streamable-http') this.close();
      throw error;
    }
  }

  private async open(): Promise<ControllerConnection> {
    const { url, params } = this.binding;
    const transport = chooseTransport(this.binding);
    // Not the signal of one call: others wait for the same opening.
    const signal = AbortSignal.timeout(OPEN_TIMEOUT_S * 1000);
    const first = await this.dial(signal);
    const token = params['auth_token'];
    const options = {
      connect: firstThen(first, this.tunnel),
      url,
      ...(typeof token === 'string' ? { authToken: token } : {}),
      timeoutS: OPEN_TIMEOUT_S,
      signal,
    };
    switch (transport) {
      case 'streamable-http': {
        const { port, pathname, search } = new URL(url);
        const where = { port: Number(port || 80), path: `${pathname}${search}` };
        return connectMcpHttp({ ...options, ...where, keepAliveMs: KEEP_ALIVE_MS });
      }
      case 'sse':
        return connectMcpSse(options);
      case 'websocket':
        return connectMcpWebSocket(options);
    }
  }

  private async dial(signal: AbortSignal): Promise<Socket> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.tunnel();
      } catch (error) {
        if (attempt === DIALS) throw error;
        await unlessAborted(sleep(DIAL_PAUSE_MS * attempt), signal);
      }
    }
  }

  private unreached(error: unknown): Error {
    if (error instanceof DenvError && error.code === 'capability_missing') return error;
    const message = error instanceof Error ? error.message : String(error);
    return new ControllerLost(
      `the MCP server of capability ${this.binding.name} was not reached: ${message}`,
      false,
      error,
    );
  }
}

/** @throws DenvError capability_missing for what cannot go through a tunnel */
function chooseTransport(binding: Binding): 'streamable-http' | 'sse' | 'websocket' {
  const scheme = new URL(binding.url).protocol;
  const transport =
    binding.params['transport'] ?? (scheme === 'ws:' ? 'websocket' : 'streamable-http');
  if (scheme === 'http:' && (transport === 'streamable-http' || transport === 'sse'))
    return transport;
  if (scheme === 'ws:' && transport === 'websocket') return transport;
  throw new DenvError(
    'capability_missing',
    `capability ${binding.name}: MCP by ${JSON.stringify(transport)} over ${scheme} is not supported`,
  );
}
