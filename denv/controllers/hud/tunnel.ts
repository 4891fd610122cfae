import type { Socket } from 'node:net';
import { ChannelError, encodeRequest, type HudReply, readFrame } from './channel';

const REPLY_TIMEOUT_MS = 20_000;
const REPLY_LIMIT_BYTES = 64 * 1024;

/** The environment would not open a stream to its capability. */
export class TunnelRefused extends Error {
  override readonly name = 'TunnelRefused';
  /** The code of a connection that was not made: a request that should have gone through it has had no effect. */
  readonly code = 'ECONNREFUSED';
}

/**
 * Opens a raw stream to a capability: a connection of its own to the control port, one request and one reply line, then bytes
 * both ways. What came behind the reply line belongs to the stream, and either side may end first.
 * @throws TunnelRefused
 */
export async function openTunnel(
  connect: () => Promise<Socket>,
  capability: string,
): Promise<Socket> {
  const socket = await connect();
  socket.allowHalfOpen = true;
  socket.setNoDelay(true);
  try {
    const reply = await exchange(socket, encodeRequest(1, 'tunnel.open', { capability }));
    if ('error' in reply)
      throw new TunnelRefused(`capability ${capability}: ${reply.error.message}`);
    return socket;
  } catch (error) {
    socket.destroy();
    if (error instanceof TunnelRefused) throw error;
    const message = error instanceof Error ? error.message : String(error);
    throw new TunnelRefused(`capability ${capability}: ${message}`, { cause: error });
  }
}

/** Reads by `readable`, so that the socket is left neither flowing nor paused for whoever gets it. */
function exchange(socket: Socket, request: string): Promise<HudReply> {
  return new Promise((resolve, reject) => {
    let seen = Buffer.alloc(0);
    const timer = setTimeout(() => finish(new Error('no reply to tunnel.open')), REPLY_TIMEOUT_MS);
    const finish = (outcome: HudReply | Error) => {
      clearTimeout(timer);
      // A later error is for whoever reads the stream; without any listener it would be thrown.
      socket.on('error', () => undefined);
      socket.off('readable', read).off('error', finish).off('end', ended).off('close', ended);
      if (outcome instanceof Error) reject(outcome);
      else resolve(outcome);
    };
    const ended = () => finish(new Error('closed before it answered'));
    const read = () => {
      const chunk = socket.read() as Buffer | null; // no encoding is set
      if (chunk === null) return;
      seen = Buffer.concat([seen, chunk]);
      const end = seen.indexOf(10);
      if (end < 0 && seen.length <= REPLY_LIMIT_BYTES) return;
      try {
        if (end < 0) throw new ChannelError('protocol', 'no reply line', true);
        const { reply } = readFrame(seen.subarray(0, end));
        if (end + 1 < seen.length) socket.unshift(seen.subarray(end + 1));
        finish(reply);
      } catch (error) {
        finish(error instanceof Error ? error : new Error(String(error)));
      }
    };
    socket.on('readable', read).on('error', finish).on('end', ended).on('close', ended);
    socket.write(request);
  });
}
