import type { ControllerConnection } from '../controller';
import type { JsonRpcPeer } from './json-rpc';
import { initialize } from './handshake';

/** The connection over a peer whose one stream carries every answer: it keeps none, and ends with its stream. */
export async function connectionOverPeer(
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
