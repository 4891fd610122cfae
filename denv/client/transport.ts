import { Readable } from 'node:stream';
import { Agent, fetch as undiciFetch } from 'undici';
import { z } from 'zod';
import { ErrorBody } from '../../contracts/denv';
import { ContractMismatchError, DenvError } from '../errors';

export interface TransportSettings {
  /** Base address, as in `http://127.0.0.1:7300`. */
  server: string;
  apiKey: string;
  /** For tests: the server's own `app.fetch`. */
  fetch?: (request: Request) => Promise<Response>;
}

export interface RequestInput {
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as bytes. */
  raw?: Buffer;
  /** Sent in pieces. */
  tar?: AsyncIterable<Uint8Array>;
  key?: string;
  signal?: AbortSignal;
  timeoutS?: number;
}

const DEFAULT_TIMEOUT_S = 60;
const treeType = 'application/x-tar';

/**
 * HTTP requests to one denv server. Every request has an end, also one to a server that hangs with its socket open.
 * @throws DenvError with the server's code, or `unavailable` when nobody answers; ContractMismatchError
 */
export class Transport {
  private readonly base: string;
  private readonly send: (request: Request) => Promise<Response>;

  constructor(private readonly settings: TransportSettings) {
    this.base = settings.server.replace(/\/+$/, '');
    this.send = settings.fetch ?? socketFetch();
  }

  /** Sends a request and parses the reply. */
  async fetchJson<S extends z.ZodType>(
    schema: S,
    method: string,
    path: string,
    input?: RequestInput,
  ): Promise<z.output<S>> {
    const response = await this.fetch(method, path, input);
    return parseReply(schema, await response.json(), `${method} ${path}`);
  }

  async fetchBytes(path: string, input?: RequestInput): Promise<Buffer> {
    const response = await this.fetch('GET', path, input);
    return Buffer.from(await response.arrayBuffer());
  }

  /** Sends a request. Any answer that is not a success is thrown. */
  async fetch(method: string, path: string, input: RequestInput = {}): Promise<Response> {
    const what = `${method} ${path.split('?')[0]}`;
    const timeoutS = input.timeoutS ?? DEFAULT_TIMEOUT_S;
    const deadline = AbortSignal.timeout(timeoutS * 1000);
    const request = this.toRequest(method, path, input, deadline);
    let response: Response;
    try {
      response = await this.send(request);
    } catch (error) {
      if (input.signal?.aborted) throw input.signal.reason;
      const late = deadline.aborted ? ` within ${timeoutS} s` : `: ${reasonOf(error)}`;
      throw new DenvError('unavailable', `no answer from ${what} at ${this.base}${late}`, {
        cause: error,
      });
    }
    if (response.ok) return response;
    throw await readError(response, what);
  }

  private toRequest(
    method: string,
    path: string,
    input: RequestInput,
    deadline: AbortSignal,
  ): Request {
    const headers: Record<string, string> = { authorization: `Bearer ${this.settings.apiKey}` };
    if (input.key !== undefined) headers['idempotency-key'] = input.key;
    const { type, body } = toPayload(input);
    if (type !== null) headers['content-type'] = type;
    return new Request(`${this.base}${path}`, {
      method,
      headers,
      body,
      ...(body instanceof ReadableStream ? { duplex: 'half' as const } : {}),
      signal: input.signal ? AbortSignal.any([input.signal, deadline]) : deadline,
    });
  }
}

/** A query string of the fields that are set. */
export function toQuery(fields: Record<string, string | undefined>): URLSearchParams {
  const given = Object.entries(fields).filter((entry): entry is [string, string] => !!entry[1]);
  return new URLSearchParams(given);
}

/** @throws ContractMismatchError */
export function parseReply<S extends z.ZodType>(
  schema: S,
  body: unknown,
  source: string,
): z.output<S> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  throw new ContractMismatchError(
    `the reply of ${source} is not of the contract: ${z.prettifyError(parsed.error)}`,
  );
}

/** The error that a server answered with; one without an error body, perhaps from a proxy, is told by its status. */
export function toError(body: unknown, status: number, what: string, retryAfterS?: number): Error {
  const parsed = ErrorBody.safeParse(body);
  if (!parsed.success) return statusError(status, `${status} from ${what}`);
  const { code, message, details } = parsed.data.error;
  return new DenvError(code, message, { details, retryAfterS });
}

async function readError(response: Response, what: string): Promise<Error> {
  const text = await response.text();
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return statusError(response.status, `${response.status} from ${what}: ${text.slice(0, 200)}`);
  }
  const retryAfter = Number(response.headers.get('retry-after'));
  return toError(body, response.status, what, retryAfter > 0 ? retryAfter : undefined);
}

function statusError(status: number, message: string): Error {
  if (status === 401 || status === 403) return new DenvError('unauthorized', message);
  if (status === 429) return new DenvError('rate_limited', message);
  if (status === 408 || status >= 500) return new DenvError('unavailable', message);
  return new ContractMismatchError(message);
}

function toPayload({ tar, raw, body }: RequestInput): {
  type: string | null;
  body: ReadableStream | Uint8Array<ArrayBuffer> | string | undefined;
} {
  if (tar) return { type: treeType, body: Readable.toWeb(Readable.from(tar)) as ReadableStream };
  if (raw) return { type: 'application/octet-stream', body: new Uint8Array(raw) };
  if (body === undefined) return { type: null, body };
  return { type: 'application/json', body: JSON.stringify(body) };
}

/** Plain sockets without the library's own 300-second limits on headers and body: a long-poll sets its own pace. */
function socketFetch(): (request: Request) => Promise<Response> {
  const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0, connections: 512 });
  return async (request) => {
    const streamed = request.headers.get('content-type') === treeType;
    const whole = async () => (request.body ? Buffer.from(await request.arrayBuffer()) : null);
    const response = await undiciFetch(request.url, {
      method: request.method,
      headers: Object.fromEntries(request.headers),
      body: streamed ? request.body : await whole(),
      ...(streamed ? { duplex: 'half' as const } : {}),
      signal: request.signal,
      dispatcher,
    });
    return response as unknown as Response; // undici's own Response class, the same interface as the global one
  };
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}
