import net from 'node:net';
import { DenvError } from '../../errors';

/** The helper's answer to a request it would not or could not do. */
export class HelperError extends Error {
  constructor(
    readonly code: string,
    message: string,
  ) {
    super(message);
    this.name = 'HelperError';
  }
}

export interface Reply {
  ok: boolean;
  code?: string;
  message?: string;
  [field: string]: unknown;
}

export function connectUnix(at: string): Promise<net.Socket> {
  return new Promise((resolve, reject) => {
    const socket = net.connect({ path: at });
    socket.once('error', reject);
    socket.once('connect', () => {
      socket.off('error', reject);
      resolve(socket);
    });
  });
}

/** Sends one line and takes one line; what comes after it stays in the socket. */
export function exchange(socket: net.Socket, request: object): Promise<Reply> {
  return new Promise((resolve, reject) => {
    let received = Buffer.alloc(0);
    const settle = (act: () => void) => {
      socket.off('readable', onReadable).off('error', onGone).off('close', onGone);
      act();
    };
    const onGone = () =>
      settle(() => reject(new DenvError('unavailable', 'the host helper died during a request')));
    const onReadable = () => {
      const chunk = socket.read() as Buffer | null;
      if (chunk === null) return;
      received = Buffer.concat([received, chunk]);
      const end = received.indexOf(10);
      if (end < 0) return;
      const rest = received.subarray(end + 1);
      if (rest.length > 0) socket.unshift(rest);
      const reply = JSON.parse(received.toString('utf8', 0, end)) as Reply;
      settle(() =>
        reply.ok
          ? resolve(reply)
          : reject(new HelperError(reply.code ?? 'failed', reply.message ?? 'no reason given')),
      );
    };
    socket.on('readable', onReadable).on('error', onGone).on('close', onGone);
    socket.write(`${JSON.stringify(request)}\n`);
  });
}
