import { createServer, type Socket } from 'node:net';
import { dial } from './environment';

export interface Frame {
  id?: number;
  method: string;
  params: Record<string, unknown>;
}

export interface Peer {
  socket: Socket;
  frame: Frame;
  /** Writes one line: a value as JSON, a text or bytes as they are. */
  say(line: unknown): void;
  reply(result: unknown): void;
  fail(code: number, message: string): void;
}

export interface ScriptedHud {
  /** Every frame that came, over all connections. */
  frames: Frame[];
  sockets: Socket[];
  connect: () => Promise<Socket>;
  stop(): Promise<void>;
}

export const HELLO = {
  session_id: 'sess-1',
  env: { name: 'scripted', version: null },
  bindings: [] as object[],
};

/** A control port whose every answer is the test's. `hello` is answered, unless the script has a word on it. */
export async function scriptedHud(
  script: Record<string, (peer: Peer) => void>,
): Promise<ScriptedHud> {
  const frames: Frame[] = [];
  const sockets: Socket[] = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.push(socket);
    socket.on('error', () => undefined);
    onLines(socket, (line) => {
      const frame = JSON.parse(line) as Frame; // as our own client wrote it
      frames.push(frame);
      const peer = peerOf(socket, frame);
      const act = script[frame.method];
      if (act) act(peer);
      else if (frame.method === 'hello') peer.reply(HELLO);
      else throw new Error(`no script for ${frame.method}`);
    });
  });
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('not listening');
  return {
    frames,
    sockets,
    connect: () => dial(address.port),
    stop: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((stopped) => server.close(stopped));
    },
  };
}

function peerOf(socket: Socket, frame: Frame): Peer {
  const say = (line: unknown) => {
    const isText = typeof line === 'string' || Buffer.isBuffer(line);
    socket.write(isText ? line : `${JSON.stringify(line)}\n`);
  };
  return {
    socket,
    frame,
    say,
    reply: (result) => say({ jsonrpc: '2.0', id: frame.id, result }),
    fail: (code, message) => say({ jsonrpc: '2.0', id: frame.id, error: { code, message } }),
  };
}

/** Lines until a `tunnel.open`, after which the bytes are not ours. */
function onLines(socket: Socket, receive: (line: string) => void): void {
  let rest = '';
  const read = (chunk: Buffer) => {
    rest += chunk.toString('utf8');
    for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n')) {
      const line = rest.slice(0, end);
      rest = rest.slice(end + 1);
      if (line.includes('"tunnel.open"')) socket.off('data', read);
      receive(line);
    }
  };
  socket.on('data', read);
}
