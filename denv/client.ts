import { Readable } from 'node:stream';
import { Agent, fetch as undiciFetch } from 'undici';
import { z } from 'zod';
import {
  CallReply,
  DeploymentRecord,
  ErrorBody,
  ExecReply,
  ForkReply,
  Health,
  Operation,
  OperationPending,
  Sandbox,
  SandboxList,
  TargetList,
  VerifyReply,
  Version,
  VersionDiff,
  VersionList,
} from '../contracts/denv';
import type {
  CallRequest,
  CreateSandboxRequest,
  ExecRequest,
  ForkRequest,
  RenewRequest,
  RetainRequest,
  SnapshotRequest,
  VerifyRequest,
} from '../contracts/denv';
import { ContractMismatchError, DenvError } from './errors';

/** Options of a keyed call that may take long. `signal` lets go of the wait; it never cancels the operation. */
export interface KeyedOptions {
  key: string;
  signal?: AbortSignal;
}

export interface DenvClient {
  createSandbox(request: CreateSandboxRequest, options: KeyedOptions): Promise<Sandbox>;
  listSandboxes(filter?: { owner?: string; rolloutId?: string }): Promise<SandboxList>;
  getSandbox(sandboxId: string): Promise<Sandbox>;
  exec(sandboxId: string, request: ExecRequest, options: KeyedOptions): Promise<ExecReply>;
  call(sandboxId: string, request: CallRequest, options: KeyedOptions): Promise<CallReply>;
  readFile(sandboxId: string, path: string): Promise<Buffer>;
  writeFile(sandboxId: string, path: string, data: Buffer, options: KeyedOptions): Promise<void>;
  /** Trees as tar archives. */
  readTree(sandboxId: string, path: string): Promise<Buffer>;
  writeTree(sandboxId: string, path: string, tar: Buffer, options: KeyedOptions): Promise<void>;
  snapshot(sandboxId: string, request: SnapshotRequest, options: KeyedOptions): Promise<Version>;
  fork(sandboxId: string, request: ForkRequest, options: KeyedOptions): Promise<ForkReply>;
  forkVersion(versionId: string, request: ForkRequest, options: KeyedOptions): Promise<ForkReply>;
  verify(sandboxId: string, request: VerifyRequest, options: KeyedOptions): Promise<VerifyReply>;
  verifyVersion(
    versionId: string,
    request: VerifyRequest,
    options: KeyedOptions,
  ): Promise<VerifyReply>;
  /** `size`: also what it alone holds on disk, which is measured now. */
  getVersion(versionId: string, options?: { size?: boolean }): Promise<Version>;
  /** Versions taken of sandboxes, by their labels and by what they were taken of; oldest first. */
  listVersions(filter?: VersionFilter): Promise<VersionList>;
  /**
   * Success when it is gone, also when it was never there.
   * @throws DenvError version_in_use, with `usedBy` in its details, while a sandbox made from it lives or an operation needs it
   */
  deleteVersion(versionId: string): Promise<void>;
  /** Moves the end of its retention. Idempotent. */
  retainVersion(versionId: string, request: RetainRequest): Promise<Version>;
  /** Files that differ, `a` being what was before. */
  diffVersions(a: string, b: string): Promise<VersionDiff>;
  /**
   * A file of the frozen tree. No link is followed.
   * @throws DenvError invalid_request when it is not there, not a regular file, or larger than 64 MiB
   */
  readVersionFile(versionId: string, path: string): Promise<Buffer>;
  renew(sandboxId: string, request: RenewRequest): Promise<Sandbox>;
  /** Success when it is gone, also when it was never there: a create of that id that comes later answers 410. */
  deleteSandbox(sandboxId: string, options?: { signal?: AbortSignal }): Promise<void>;
  record(sandboxId: string): Promise<DeploymentRecord>;
  operation(key: string, options?: { waitS?: number; signal?: AbortSignal }): Promise<Operation>;
  /** Kills the running command or call of that key, if there is one; its outcome is then kept as killed. */
  cancelOperation(key: string): Promise<void>;
  targets(): Promise<TargetList>;
  /**
   * Sends a tar under its digest, in pieces, so that file trees may name it. Idempotent.
   * @throws DenvError invalid_request when it has another digest, or is larger than 1 GiB
   */
  uploadTree(
    sha256: string,
    tar: AsyncIterable<Uint8Array>,
    options?: { signal?: AbortSignal },
  ): Promise<void>;
  health(): Promise<Health>;
}

export interface VersionFilter {
  owner?: string;
  rolloutId?: string;
  sandbox?: string;
  /** Also what each of them alone holds on disk, which is measured now. */
  size?: boolean;
}

export interface DenvClientSettings {
  /** Base address, as in `http://127.0.0.1:7300`. */
  server: string;
  apiKey: string;
  /** Seconds that one HTTP request may wait for an operation before it asks again. */
  pollS?: number;
  /** For tests: the server's own `app.fetch`. */
  fetch?: (request: Request) => Promise<Response>;
}

/** Every request has an end, also to a server that hangs with its socket open: what it may take, and this much over. */
const GRACE_S = 60;
const DEFAULT_TIMEOUT_S = 60;
const DELETE_TIMEOUT_S = 180;
const FILES_TIMEOUT_S = 360;
const TREE_TIMEOUT_S = 1800;
/** For what reads through whole trees. */
const WALK_TIMEOUT_S = 300;
const treeType = 'application/x-tar';

interface RequestInput {
  body?: unknown;
  raw?: Buffer;
  tar?: AsyncIterable<Uint8Array>;
  key?: string;
  signal?: AbortSignal;
  timeoutS?: number;
}

/**
 * A client of the denv API. Each keyed call sends the request once, then long-polls its operation until it is done, so a
 * connection lost in between costs nothing: the caller asks the same key again.
 * @throws DenvError with the server's code, or `unavailable` when nobody answers; ContractMismatchError
 */
export function createDenvClient(settings: DenvClientSettings): DenvClient {
  const pollS = settings.pollS ?? 30;
  const longPollS = pollS + GRACE_S;
  const send = settings.fetch ?? socketFetch();
  const base = settings.server.replace(/\/+$/, '');

  async function request(method: string, path: string, init: RequestInput = {}): Promise<Response> {
    const headers: Record<string, string> = { authorization: `Bearer ${settings.apiKey}` };
    if (init.key !== undefined) headers['idempotency-key'] = init.key;
    const { type, body } = payloadOf(init);
    if (type !== null) headers['content-type'] = type;
    const what = `${method} ${path.split('?')[0]}`;
    const timeoutS = init.timeoutS ?? DEFAULT_TIMEOUT_S;
    const deadline = AbortSignal.timeout(timeoutS * 1000);
    let response: Response;
    try {
      response = await send(
        new Request(`${base}${path}`, {
          method,
          headers,
          body,
          ...(body instanceof ReadableStream ? { duplex: 'half' as const } : {}),
          signal: init.signal ? AbortSignal.any([init.signal, deadline]) : deadline,
        }),
      );
    } catch (error) {
      if (init.signal?.aborted) throw init.signal.reason;
      if (deadline.aborted) {
        throw new DenvError(
          'unavailable',
          `no answer from ${what} at ${base} within ${timeoutS} s`,
        );
      }
      throw new DenvError('unavailable', `no answer from ${what} at ${base}: ${reasonOf(error)}`, {
        cause: error,
      });
    }
    if (response.ok) return response;
    throw await errorOf(response, what);
  }

  async function json<S extends z.ZodType>(schema: S, response: Response): Promise<z.output<S>> {
    const body: unknown = await response.json();
    return parseReply(schema, body, response.url);
  }

  async function keyed<S extends z.ZodType>(
    schema: S,
    path: string,
    body: object,
    options: KeyedOptions,
  ): Promise<z.output<S>> {
    const response = await request('POST', path, {
      body: { ...body, wait: pollS },
      key: options.key,
      signal: options.signal,
      timeoutS: longPollS,
    });
    if (response.status !== 202) return json(schema, response);
    OperationPending.parse(await response.json());
    return awaitOperation(schema, options);
  }

  async function awaitOperation<S extends z.ZodType>(
    schema: S,
    options: KeyedOptions,
  ): Promise<z.output<S>> {
    for (;;) {
      const operation = await client.operation(options.key, {
        waitS: pollS,
        signal: options.signal,
      });
      if (operation.state === 'running') continue;
      if (operation.status >= 400) throw bodyError(operation.body, operation.status, options.key);
      return parseReply(schema, operation.body, `operation ${options.key}`);
    }
  }

  const env = (sandboxId: string) => `/v1/envs/${encodeURIComponent(sandboxId)}`;
  const version = (versionId: string) => `/v1/versions/${encodeURIComponent(versionId)}`;
  const filesPath = (sandboxId: string, path: string, kind: 'file' | 'tree') =>
    `${env(sandboxId)}/files?path=${encodeURIComponent(path)}&kind=${kind}`;

  async function readFiles(
    sandboxId: string,
    path: string,
    kind: 'file' | 'tree',
  ): Promise<Buffer> {
    const response = await request('GET', filesPath(sandboxId, path, kind), {
      timeoutS: FILES_TIMEOUT_S,
    });
    return Buffer.from(await response.arrayBuffer());
  }

  async function writeFiles(
    sandboxId: string,
    path: string,
    kind: 'file' | 'tree',
    raw: Buffer,
    options: KeyedOptions,
  ): Promise<void> {
    await request('PUT', filesPath(sandboxId, path, kind), {
      raw,
      ...options,
      timeoutS: FILES_TIMEOUT_S,
    });
  }

  const client: DenvClient = {
    createSandbox: (body, options) => keyed(Sandbox, '/v1/sandboxes', body, options),
    async listSandboxes(filter = {}) {
      return json(SandboxList, await request('GET', `/v1/envs?${queryOf(filter)}`));
    },
    getSandbox: async (id) => json(Sandbox, await request('GET', env(id))),
    exec: (id, body, options) => keyed(ExecReply, `${env(id)}/exec`, body, options),
    call: (id, body, options) => keyed(CallReply, `${env(id)}/calls`, body, options),
    readFile: (id, path) => readFiles(id, path, 'file'),
    writeFile: (id, path, data, options) => writeFiles(id, path, 'file', data, options),
    readTree: (id, path) => readFiles(id, path, 'tree'),
    writeTree: (id, path, tar, options) => writeFiles(id, path, 'tree', tar, options),
    snapshot: (id, body, options) => keyed(Version, `${env(id)}/snapshot`, body, options),
    fork: (id, body, options) => keyed(ForkReply, `${env(id)}/fork`, body, options),
    forkVersion: (id, body, options) => keyed(ForkReply, `${version(id)}/fork`, body, options),
    verify: (id, body, options) => keyed(VerifyReply, `${env(id)}/verify`, body, options),
    verifyVersion: (id, body, options) =>
      keyed(VerifyReply, `${version(id)}/verify`, body, options),
    async getVersion(id, { size = false } = {}) {
      const path = `${version(id)}${size ? '?size=1' : ''}`;
      return json(Version, await request('GET', path, { timeoutS: WALK_TIMEOUT_S }));
    },
    async listVersions({ size = false, ...filter } = {}) {
      const query = queryOf({ ...filter, size: size ? '1' : undefined });
      const path = `/v1/versions?${query}`;
      return json(VersionList, await request('GET', path, { timeoutS: WALK_TIMEOUT_S }));
    },
    async deleteVersion(id) {
      await request('DELETE', version(id), { timeoutS: DELETE_TIMEOUT_S });
    },
    retainVersion: async (id, body) =>
      json(Version, await request('POST', `${version(id)}/retain`, { body })),
    async diffVersions(a, b) {
      const path = `${version(a)}/diff/${encodeURIComponent(b)}`;
      return json(VersionDiff, await request('GET', path, { timeoutS: WALK_TIMEOUT_S }));
    },
    async readVersionFile(id, path) {
      const at = `${version(id)}/files?path=${encodeURIComponent(path)}`;
      const response = await request('GET', at, { timeoutS: FILES_TIMEOUT_S });
      return Buffer.from(await response.arrayBuffer());
    },
    renew: async (id, body) => json(Sandbox, await request('POST', `${env(id)}/renew`, { body })),
    async deleteSandbox(id, options = {}) {
      await request('DELETE', env(id), { signal: options.signal, timeoutS: DELETE_TIMEOUT_S });
    },
    record: async (id) => json(DeploymentRecord, await request('GET', `${env(id)}/record`)),
    async operation(key, options = {}) {
      const path = `/v1/operations/${encodeURIComponent(key)}?wait=${options.waitS ?? 0}`;
      const timeoutS = (options.waitS ?? 0) + GRACE_S;
      return json(Operation, await request('GET', path, { signal: options.signal, timeoutS }));
    },
    async cancelOperation(key) {
      await request('DELETE', `/v1/operations/${encodeURIComponent(key)}`);
    },
    async uploadTree(sha256, tar, options = {}) {
      const { signal } = options;
      await request('PUT', `/v1/trees/${sha256}`, { tar, signal, timeoutS: TREE_TIMEOUT_S });
    },
    targets: async () => json(TargetList, await request('GET', '/v1/targets')),
    health: async () => json(Health, await request('GET', '/healthz')),
  };
  return client;
}

function queryOf(filter: Record<string, string | undefined>): URLSearchParams {
  const given = Object.entries(filter).filter((entry): entry is [string, string] => !!entry[1]);
  return new URLSearchParams(given);
}

function payloadOf({ tar, raw, body }: RequestInput): {
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

function parseReply<S extends z.ZodType>(schema: S, body: unknown, source: string): z.output<S> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  throw new ContractMismatchError(
    `the reply of ${source} is not of the contract: ${z.prettifyError(parsed.error)}`,
  );
}

async function errorOf(response: Response, what: string): Promise<Error> {
  const text = await response.text();
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return statusError(response.status, `${response.status} from ${what}: ${text.slice(0, 200)}`);
  }
  const retryAfter = Number(response.headers.get('retry-after'));
  return bodyError(body, response.status, what, retryAfter > 0 ? retryAfter : undefined);
}

function bodyError(body: unknown, status: number, what: string, retryAfterS?: number): Error {
  const parsed = ErrorBody.safeParse(body);
  if (!parsed.success) return statusError(status, `${status} from ${what}`);
  const { code, message, details } = parsed.data.error;
  return new DenvError(code, message, { details, retryAfterS });
}

/** An answer without an error body, from a proxy in between perhaps: judged by its status. */
function statusError(status: number, message: string): Error {
  if (status === 401 || status === 403) return new DenvError('unauthorized', message);
  if (status === 429) return new DenvError('rate_limited', message);
  if (status === 408 || status >= 500) return new DenvError('unavailable', message);
  return new ContractMismatchError(message);
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? error.cause.message : error.message;
}
