import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { type JSONRPCMessage, JSONRPCMessageSchema } from '@modelcontextprotocol/sdk/types.js';
import type { ExecHandle } from '../../drivers/driver';
import type { ControllerConnection } from '../controller';
import { LineSplitter, LineTooLong } from '../lines';
import { JsonRpcPeer } from './json-rpc';
import { initialize } from './handshake';

/**
 * MCP over the stdin and stdout of a process that the driver holds outside this server: output is followed in its log, so a
 * later server process finds the answers that came in between.
 */
export async function connectMcpStdio(options: {
  handle: ExecHandle;
  timeoutS: number;
  signal: AbortSignal;
}): Promise<ControllerConnection> {
  const { transport, peer } = openPeer(options.handle);
  const protocolVersion = await initialize(peer, options.timeoutS, options.signal);
  await peer.notify('notifications/initialized');
  return connectionOver(peer, transport, protocolVersion);
}

/** Continues with a process that an earlier server process initialized. */
export function resumeMcpStdio(handle: ExecHandle, protocolVersion: string): ControllerConnection {
  const { transport, peer } = openPeer(handle);
  return connectionOver(peer, transport, protocolVersion);
}

function openPeer(handle: ExecHandle): { transport: StdioTransport; peer: JsonRpcPeer } {
  const transport = new StdioTransport(handle);
  const peer = new JsonRpcPeer(transport);
  transport.onerror = (error) => peer.failController(error.message);
  return { transport, peer };
}

function connectionOver(
  peer: JsonRpcPeer,
  transport: StdioTransport,
  protocolVersion: string,
): ControllerConnection {
  return {
    call: (call) => peer.request(call),
    awaitAnswer: (call) => peer.claim(call),
    state: () => ({ sessionId: null, protocolVersion }),
    close: () => {
      peer.fail('the connection to the controller was closed');
      transport.stop();
    },
  };
}

class StdioTransport implements Transport {
  onmessage?: (message: JSONRPCMessage) => void;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  private readonly splitter = new LineSplitter();
  private broken = false;
  /** Lets go of the log; the process goes on. */
  readonly stop: () => void;

  constructor(private readonly handle: ExecHandle) {
    // From its start: an answer that came while no server ran is in there. The first data comes in a later tick, when the
    // peer has set its handlers.
    this.stop = handle.follow(0, (data) => this.receive(data));
  }

  start(): Promise<void> {
    return Promise.resolve();
  }

  async send(message: JSONRPCMessage): Promise<void> {
    await this.handle.write(Buffer.from(`${JSON.stringify(message)}\n`));
  }

  close(): Promise<void> {
    this.stop();
    this.onclose?.();
    return Promise.resolve();
  }

  /** A line past the limit is the end: where the next message begins, nobody can tell. */
  private receive(data: Buffer): void {
    if (this.broken) return;
    try {
      for (const line of this.splitter.push(data)) this.receiveLine(line.toString('utf8'));
    } catch (error) {
      if (!(error instanceof LineTooLong)) throw error;
      this.broken = true;
      this.stop();
      this.onerror?.(new Error(`the controller wrote ${error.message} to its stdout`));
    }
  }

  /** Lines that are no message are a controller's own chatter on stdout: passed over, as MCP clients do. */
  private receiveLine(line: string): void {
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch {
      return;
    }
    const message = JSONRPCMessageSchema.safeParse(value);
    if (message.success) this.onmessage?.(message.data);
  }
}
