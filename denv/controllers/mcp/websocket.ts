import type { Socket } from 'node:net';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { type JSONRPCMessage, JSONRPCMessageSchema } from '@modelcontextprotocol/sdk/types.js';
import { WebSocket } from 'ws';
import type { ControllerConnection } from '../controller';
import { unlessAborted } from '../unless-aborted';
import { connectOverStream } from './handshake';
import { JsonRpcPeer } from './json-rpc';
import { bearer } from './fetch';

const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

/** MCP over a WebSocket, one message a frame. */
export async function connectMcpWebSocket(options: {
  connect: () => Promise<Socket>;
  url: string;
  authToken?: string;
  timeoutS: number;
  signal: AbortSignal;
}): Promise<ControllerConnection> {
  const stream = await options.connect();
  const socket = new WebSocket(options.url, 'mcp', {
    createConnection: () => stream,
    headers: bearer(options.authToken),
    maxPayload: MAX_MESSAGE_BYTES,
    perMessageDeflate: false,
    handshakeTimeout: options.timeoutS * 1000,
  });
  const opened = new Promise<void>((resolve, reject) => {
    socket.once('open', resolve).once('error', reject);
  });
  const transport = new WebSocketTransport(socket);
  const peer = new JsonRpcPeer(transport);
  const end = (message: string) => {
    peer.fail(message);
    socket.terminate();
  };
  try {
    await unlessAborted(opened, options.signal);
    return await connectOverStream(peer, end, () => undefined, options);
  } catch (error) {
    end('the controller was not reached');
    throw error;
  }
}

class WebSocketTransport implements Transport {
  onmessage?: (message: JSONRPCMessage) => void;
  onclose?: () => void;
  onerror?: (error: Error) => void;

  constructor(private readonly socket: WebSocket) {
    socket.on('message', (data: Buffer) => this.receive(data.toString('utf8')));
    socket.on('close', () => this.onclose?.());
    socket.on('error', (error) => this.onerror?.(error));
  }

  start = () => Promise.resolve();

  send = (message: JSONRPCMessage) =>
    new Promise<void>((resolve, reject) => {
      this.socket.send(JSON.stringify(message), (error) => (error ? reject(error) : resolve()));
    });

  close(): Promise<void> {
    this.socket.close();
    return Promise.resolve();
  }

  private receive(text: string): void {
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return;
    }
    const message = JSONRPCMessageSchema.safeParse(value);
    if (message.success) this.onmessage?.(message.data);
  }
}
