import {
  InitializeResultSchema,
  LATEST_PROTOCOL_VERSION,
} from '@modelcontextprotocol/sdk/types.js';
import { DenvError } from '../../errors';
import type { ControllerConnection } from '../controller';
import type { JsonRpcPeer } from './json-rpc';

const CLIENT = { name: 'denv', version: '1' };

/**
 * The MCP handshake: a controller is ready once it has answered.
 * @returns the protocol version that the controller chose
 * @throws DenvError controller_failed when its answer is not one of MCP
 */
export async function initialize(
  peer: JsonRpcPeer,
  timeoutS: number,
  signal: AbortSignal,
): Promise<string> {
  const answer = await peer.request({
    callId: 'initialize',
    method: 'initialize',
    params: { protocolVersion: LATEST_PROTOCOL_VERSION, capabilities: {}, clientInfo: CLIENT },
    timeoutS,
    resetTimeoutOnProgress: false,
    signal,
    sending: () => undefined,
    sent: () => undefined,
  });
  if (answer.kind === 'timed_out') {
    throw new DenvError('controller_failed', `the controller did not answer within ${timeoutS} s`);
  }
  if (answer.kind === 'error') {
    throw new DenvError(
      'controller_failed',
      `the controller refused to start: ${answer.error.message}`,
    );
  }
  const result = InitializeResultSchema.safeParse(answer.result);
  if (!result.success) {
    throw new DenvError('controller_failed', 'the answer to initialize is not one of MCP');
  }
  return result.data.protocolVersion;
}

/** The connection over a peer whose one stream carries every answer: it keeps none, and ends with its stream. */
export async function connectOverStream(
  peer: JsonRpcPeer,
  end: (message: string) => void,
  setProtocolVersion: (version: string) => void,
  limit: { timeoutS: number; signal: AbortSignal },
): Promise<ControllerConnection> {
  const protocolVersion = await initialize(peer, limit.timeoutS, limit.signal);
  setProtocolVersion(protocolVersion);
  await peer.notify('notifications/initialized');
  return {
    call: (call) => peer.request(call),
    awaitAnswer: null,
    state: () => ({ sessionId: null, protocolVersion }),
    close: () => end('the connection to the controller was closed'),
  };
}
