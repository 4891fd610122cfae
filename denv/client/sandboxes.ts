import type {
  CallRequest,
  CreateSandboxRequest,
  ExecRequest,
  ForkRequest,
  RenewRequest,
  SnapshotRequest,
  VerifyRequest,
} from '../../contracts/denv';
import {
  CallReply,
  DeploymentRecord,
  ExecReply,
  ForkReply,
  Sandbox,
  SandboxList,
  VerifyReply,
  Version,
} from '../../contracts/denv';
import type { KeyedOptions, Operations } from './operations';
import { toQuery, type Transport } from './transport';

export interface SandboxCalls {
  createSandbox(request: CreateSandboxRequest, options: KeyedOptions): Promise<Sandbox>;
  listSandboxes(filter?: { owner?: string; rolloutId?: string }): Promise<SandboxList>;
  getSandbox(sandboxId: string): Promise<Sandbox>;
  exec(sandboxId: string, request: ExecRequest, options: KeyedOptions): Promise<ExecReply>;
  call(sandboxId: string, request: CallRequest, options: KeyedOptions): Promise<CallReply>;
  readFile(sandboxId: string, path: string): Promise<Buffer>;
  /** @throws DenvError invalid_request for more than 64 MiB: send that much as a tree, with the create */
  writeFile(sandboxId: string, path: string, data: Buffer, options: KeyedOptions): Promise<void>;
  /** Trees as tar archives. */
  readTree(sandboxId: string, path: string): Promise<Buffer>;
  writeTree(sandboxId: string, path: string, tar: Buffer, options: KeyedOptions): Promise<void>;
  snapshot(sandboxId: string, request: SnapshotRequest, options: KeyedOptions): Promise<Version>;
  fork(sandboxId: string, request: ForkRequest, options: KeyedOptions): Promise<ForkReply>;
  verify(sandboxId: string, request: VerifyRequest, options: KeyedOptions): Promise<VerifyReply>;
  renew(sandboxId: string, request: RenewRequest): Promise<Sandbox>;
  /** Succeeds when the sandbox is gone, also when it was never there: a later create of that id is answered 410. */
  deleteSandbox(sandboxId: string, options?: { signal?: AbortSignal }): Promise<void>;
  record(sandboxId: string): Promise<DeploymentRecord>;
}

const DELETE_TIMEOUT_S = 180;
const FILES_TIMEOUT_S = 360;

export function createSandboxCalls(transport: Transport, operations: Operations): SandboxCalls {
  const readFiles = (id: string, path: string, kind: FilesKind) =>
    transport.fetchBytes(filesPath(id, path, kind), { timeoutS: FILES_TIMEOUT_S });
  const writeFiles = async (
    { id, path, kind }: { id: string; path: string; kind: FilesKind },
    raw: Buffer,
    options: KeyedOptions,
  ) => {
    const input = { raw, ...options, timeoutS: FILES_TIMEOUT_S };
    await transport.fetch('PUT', filesPath(id, path, kind), input);
  };

  return {
    createSandbox: (body, options) => operations.run(Sandbox, '/v1/sandboxes', body, options),
    listSandboxes: (filter = {}) =>
      transport.fetchJson(SandboxList, 'GET', `/v1/envs?${toQuery(filter)}`),
    getSandbox: (id) => transport.fetchJson(Sandbox, 'GET', pathOf(id)),
    exec: (id, body, options) => operations.run(ExecReply, `${pathOf(id)}/exec`, body, options),
    call: (id, body, options) => operations.run(CallReply, `${pathOf(id)}/calls`, body, options),
    readFile: (id, path) => readFiles(id, path, 'file'),
    writeFile: (id, path, data, options) => writeFiles({ id, path, kind: 'file' }, data, options),
    readTree: (id, path) => readFiles(id, path, 'tree'),
    writeTree: (id, path, tar, options) => writeFiles({ id, path, kind: 'tree' }, tar, options),
    snapshot: (id, body, options) =>
      operations.run(Version, `${pathOf(id)}/snapshot`, body, options),
    fork: (id, body, options) => operations.run(ForkReply, `${pathOf(id)}/fork`, body, options),
    verify: (id, body, options) =>
      operations.run(VerifyReply, `${pathOf(id)}/verify`, body, options),
    renew: (id, body) => transport.fetchJson(Sandbox, 'POST', `${pathOf(id)}/renew`, { body }),
    async deleteSandbox(id, { signal } = {}) {
      await transport.fetch('DELETE', pathOf(id), { signal, timeoutS: DELETE_TIMEOUT_S });
    },
    record: (id) => transport.fetchJson(DeploymentRecord, 'GET', `${pathOf(id)}/record`),
  };
}

type FilesKind = 'file' | 'tree';

const pathOf = (sandboxId: string) => `/v1/envs/${encodeURIComponent(sandboxId)}`;

const filesPath = (sandboxId: string, path: string, kind: FilesKind) =>
  `${pathOf(sandboxId)}/files?path=${encodeURIComponent(path)}&kind=${kind}`;
