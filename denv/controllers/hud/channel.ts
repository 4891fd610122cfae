import type { Socket } from 'node:net';
import { parsePlain, stringifyPlain } from '../../../json/lossless';
import { LINE_LIMIT_BYTES, LineSplitter, LineTooLong } from '../lines';

export type HudReply =
  { result: Record<string, unknown> } | { error: { code: number; message: string } };

/** A request got no reply: `lost` when the connection broke, `protocol` when the other end is not one of HUD. */
export class ChannelError extends Error {
  override readonly name = 'ChannelError';
  constructor(
    readonly kind: 'lost' | 'protocol',
    message: string,
    /** Whether the other end may have seen the request. */
    readonly sent: boolean,
  ) {
    super(message);
  }

  /** The same for a request that had no effect. */
  unsent(): ChannelError {
    return new ChannelError(this.kind, this.message, false);
  }
}

export interface RequestHooks {
  /** Called right before the frame leaves, and once it has left. */
  sending?: () => void;
  sent?: () => void;
}

interface Pending {
  resolve(reply: HudReply): void;
  reject(error: ChannelError): void;
}

/** The text of one request. @throws ChannelError when it is past the limit: nothing has been sent */
export function encodeRequest(id: number, method: string, params: object): string {
  const text = stringifyPlain({ jsonrpc: '2.0', id, method, params });
  const bytes = Buffer.byteLength(text);
  if (bytes > LINE_LIMIT_BYTES) {
    throw new ChannelError(
      'protocol',
      `${method} would be a frame of ${bytes} bytes; the limit is ${LINE_LIMIT_BYTES}`,
      false,
    );
  }
  return `${text}\n`;
}

/**
 * JSON-RPC lines over one control connection. Replies are matched by id, since a cancelled call gets its own beside the one to
 * the cancel. A reply to nothing, or one that is no JSON-RPC, ends the channel: nobody knows any more what it answers.
 */
export class HudChannel {
  private readonly pending = new Map<number, Pending>();
  private readonly splitter = new LineSplitter();
  private nextId = 1;
  private failure: ChannelError | null = null;

  constructor(private readonly socket: Socket) {
    // A grade may take hours in which nothing else may be sent.
    socket.setKeepAlive(true, 30_000);
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => this.receive(chunk));
    socket.on('error', (error) =>
      this.fail('lost', `the control connection broke: ${error.message}`),
    );
    socket.on('end', () => this.fail('lost', 'the environment closed the control connection'));
    socket.on('close', () => this.fail('lost', 'the control connection was closed'));
  }

  get open(): boolean {
    return this.failure === null && this.socket.writable;
  }

  /** @throws ChannelError */
  request(method: string, params: object, hooks: RequestHooks = {}): Promise<HudReply> {
    const id = this.nextId;
    this.nextId += 1;
    return new Promise((resolve, reject) => {
      if (this.failure) throw this.failure.unsent();
      if (!this.open) throw new ChannelError('lost', 'the control connection is closed', false);
      const frame = encodeRequest(id, method, params);
      hooks.sending?.();
      this.pending.set(id, { resolve, reject });
      this.socket.write(frame, (error) => {
        if (!error) hooks.sent?.();
      });
    });
  }

  /** Says that nothing more will come; the other end parks its task, if it has one. */
  close(): void {
    this.fail('lost', 'the control connection was closed');
  }

  private receive(chunk: Buffer): void {
    if (this.failure) return;
    try {
      for (const line of this.splitter.push(chunk)) if (line.length > 0) this.receiveLine(line);
    } catch (error) {
      if (!(error instanceof ChannelError) && !(error instanceof LineTooLong)) throw error;
      this.fail('protocol', `the environment sent ${error.message}`);
    }
  }

  private receiveLine(line: Buffer): void {
    const frame = readFrame(line);
    const pending = typeof frame.id === 'number' ? this.pending.get(frame.id) : undefined;
    if (!pending) {
      const said = 'error' in frame.reply ? `: ${frame.reply.error.message}` : '';
      throw new ChannelError('protocol', `a reply to no request of ours${said}`, true);
    }
    this.pending.delete(Number(frame.id));
    pending.resolve(frame.reply);
  }

  private fail(kind: 'lost' | 'protocol', message: string): void {
    if (this.failure) return;
    this.failure = new ChannelError(kind, message, true);
    this.socket.end();
    this.socket.destroySoon();
    for (const pending of this.pending.values()) pending.reject(this.failure);
    this.pending.clear();
  }
}

/** @throws ChannelError when the line is no JSON-RPC reply */
export function readFrame(line: Buffer): { id: unknown; reply: HudReply } {
  const shown = () => JSON.stringify(line.subarray(0, 80).toString('utf8'));
  let value: unknown;
  try {
    value = parsePlain(line.toString('utf8'));
  } catch {
    throw new ChannelError('protocol', `a line that is no JSON: ${shown()}`, true);
  }
  if (!isObject(value)) throw new ChannelError('protocol', `no JSON object: ${shown()}`, true);
  const { id, result, error } = value;
  if (isObject(result)) return { id, reply: { result } };
  if (isObject(error) && typeof error['code'] === 'number') {
    const message = typeof error['message'] === 'string' ? error['message'] : '';
    return { id, reply: { error: { code: error['code'], message } } };
  }
  throw new ChannelError('protocol', `no JSON-RPC reply: ${shown()}`, true);
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
