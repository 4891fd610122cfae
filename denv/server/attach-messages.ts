import { Readable } from 'node:stream';
import type { WebSocket } from 'ws';
import { z } from 'zod';
import { DenvError } from '../errors';

/** Messages of an attach stream, with a stop to whoever is faster than the other end. */

export type Message = { kind: 'bytes'; data: Buffer } | { kind: 'text'; text: string };

/** Messages that wait to be taken, before the socket is read no further. */
const WAITING = 8;

/** What the client sends, in order. Ends with the socket. */
export function inboxOf(ws: WebSocket): AsyncIterator<Message> {
  const inbox = new Readable({ objectMode: true, highWaterMark: WAITING, read: () => ws.resume() });
  ws.on('message', (data, isBinary) => {
    const bytes = data as Buffer; // binaryType is nodebuffer
    const message: Message = isBinary
      ? { kind: 'bytes', data: bytes }
      : { kind: 'text', text: bytes.toString('utf8') };
    if (!inbox.push(message)) ws.pause();
  });
  ws.on('close', () => inbox.push(null));
  return inbox[Symbol.asyncIterator]() as AsyncIterator<Message>; // nothing else is pushed
}

/** Resolves when the bytes have left: whoever waits for it sends no faster than the client reads. */
export function sendBytes(ws: WebSocket, tag: number, data: Buffer): Promise<void> {
  return sent(ws, Buffer.concat([Buffer.of(tag), data]));
}

export function sendText(ws: WebSocket, message: object): Promise<void> {
  return sent(ws, JSON.stringify(message));
}

function sent(ws: WebSocket, data: Buffer | string): Promise<void> {
  return new Promise((resolve, reject) => {
    ws.send(data, (error) => (error ? reject(error) : resolve()));
  });
}

/** What a text message says. @throws DenvError invalid_request */
export function parsed<S extends z.ZodType>(schema: S, text: string): z.output<S> {
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    throw new DenvError('invalid_request', 'a text message is JSON');
  }
  const found = schema.safeParse(body);
  if (found.success) return found.data;
  throw new DenvError('invalid_request', z.prettifyError(found.error));
}
