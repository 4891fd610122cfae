import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import type { WebSocket } from 'ws';
import { AttachStart } from '../../contracts/denv';
import { DenvError, toDenvError } from '../errors';
import { inboxOf, parsed, sendText } from './attach-messages';
import type { Message } from './attach-messages';
import { carry, ofExec, ofPort } from './attach-streams';
import type { Inside } from './attach-streams';
import type { ServerContext } from './context';
import { authorize } from './http';
import type { SandboxRow } from './rows';
import type { Sandboxes } from './sandboxes';
import { uidOfUser } from './views';

const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
const FIRST_MESSAGE_MS = 30_000;
/** How often a stream's sandbox and socket are looked after, at least. */
const TICK_S = 20;

/** Streams into sandboxes over WebSockets, each for as long as its socket lives. The protocol: contracts/denv.ts, AttachStart. */
export class Attachments {
  private readonly sockets = new WebSocketServer({ noServer: true, maxPayload: MAX_MESSAGE_BYTES });
  private readonly streams = new Set<Promise<void>>();

  constructor(
    private readonly context: ServerContext,
    private readonly sandboxes: Sandboxes,
  ) {}

  /** Takes a request that asks to be upgraded, or refuses it over HTTP. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    let sandboxId: string;
    try {
      sandboxId = this.admit(request);
    } catch (error) {
      refuse(socket, toDenvError(error));
      return;
    }
    this.sockets.handleUpgrade(request, socket, head, (ws) => {
      const stream = this.serve(ws, sandboxId).finally(() => this.streams.delete(stream));
      this.streams.add(stream);
    });
  }

  /** Ends every stream, and what ran on it. */
  async close(): Promise<void> {
    for (const ws of this.sockets.clients) ws.terminate();
    await Promise.all(this.streams);
  }

  private admit(request: IncomingMessage): string {
    authorize(request.headers.authorization, this.context.settings.apiKey);
    if (request.headers.origin !== undefined) {
      throw new DenvError('unauthorized', 'attach is not for browsers: send no Origin');
    }
    const { pathname } = new URL(request.url ?? '', 'http://denv');
    const id = /^\/v1\/envs\/([^/]+)\/attach$/.exec(pathname)?.[1];
    if (id === undefined) {
      throw new DenvError('invalid_request', `there is nothing to attach to at ${pathname}`);
    }
    return decodeURIComponent(id);
  }

  private async serve(ws: WebSocket, sandboxId: string): Promise<void> {
    const closed = new Promise<void>((resolve) => ws.once('close', () => resolve()));
    ws.on('error', () => undefined); // `close` follows.
    const inbox = inboxOf(ws);
    try {
      const start = await firstOf(inbox);
      const row = this.sandboxes.running(sandboxId);
      const inside = await this.open(row, start);
      const stopCare = this.careFor(ws, row);
      try {
        await Promise.race([closed, carry(ws, inbox, inside)]);
      } finally {
        stopCare();
        await inside.end();
      }
      ws.close(1000);
    } catch (error) {
      if (ws.readyState !== ws.OPEN) return;
      const known = toDenvError(error);
      if (known.code === 'internal') {
        this.context.log.error({ err: error, sandbox: sandboxId }, 'attach failed');
      }
      await sendText(ws, known.toBody()).catch(() => undefined);
      ws.close(1008);
    }
  }

  private async open(row: SandboxRow, start: AttachStart): Promise<Inside> {
    const { driver } = this.context;
    if ('port' in start) return ofPort(row, await driver.connect(row.id, start.port));
    return ofExec(
      await driver.attachExec(row.id, `ws-${randomUUID()}`, {
        argv: start.argv,
        uid: start.user === undefined ? row.spec.uid : uidOfUser(start.user),
        cwd: start.cwd ?? row.spec.workdir,
        env: { ...row.spec.env, ...start.env },
        ...(start.tty ? { tty: start.tty } : {}),
      }),
    );
  }

  /** Renews the sandbox's lease, and notices a client that vanished while nothing was read from it. */
  private careFor(ws: WebSocket, row: SandboxRow): () => void {
    const care = setInterval(
      () => {
        if (row.state !== 'running') return ws.terminate();
        this.sandboxes.touch(row);
        ws.ping();
      },
      Math.min(row.leaseS / 3, TICK_S) * 1000,
    );
    return () => clearInterval(care);
  }
}

async function firstOf(inbox: AsyncIterator<Message>): Promise<AttachStart> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const why = new DenvError('invalid_request', 'no AttachStart came');
    timer = setTimeout(() => reject(why), FIRST_MESSAGE_MS);
  });
  const next = await Promise.race([inbox.next(), late]).finally(() => clearTimeout(timer));
  if (next.done || next.value.kind !== 'text') {
    throw new DenvError('invalid_request', 'the first message is an AttachStart, as text');
  }
  return parsed(AttachStart, next.value.text);
}

function refuse(socket: Duplex, error: DenvError): void {
  const body = JSON.stringify(error.toBody());
  const head = [
    `HTTP/1.1 ${error.status} Refused`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ];
  socket.on('error', () => undefined); // It may be gone already.
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
