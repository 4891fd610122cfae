import { Health, TargetList } from '../contracts/denv';
import { type OperationCalls, Operations } from './client/operations';
import { createSandboxCalls, type SandboxCalls } from './client/sandboxes';
import { Transport, type TransportSettings } from './client/transport';
import { createVersionCalls, type VersionCalls } from './client/versions';

/** Typed calls of the denv API, a part for each resource. */
export interface DenvClient extends SandboxCalls, VersionCalls, OperationCalls {
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

export interface DenvClientSettings extends TransportSettings {
  /** Seconds that one HTTP request may wait for an operation before it asks again. */
  pollS?: number;
}

const TREE_TIMEOUT_S = 1800;

/**
 * A client of the denv API. Each keyed call sends the request once, then long-polls its operation until it is done, so a
 * connection lost in between costs nothing: the caller asks the same key again.
 * @throws DenvError with the server's code, or `unavailable` when nobody answers; ContractMismatchError
 */
export function createDenvClient({ pollS = 30, ...settings }: DenvClientSettings): DenvClient {
  const transport = new Transport(settings);
  const operations = new Operations(transport, pollS);
  return {
    ...createSandboxCalls(transport, operations),
    ...createVersionCalls(transport, operations),
    operation: (key, options) => operations.operation(key, options),
    cancelOperation: (key) => operations.cancelOperation(key),
    targets: () => transport.fetchJson(TargetList, 'GET', '/v1/targets'),
    health: () => transport.fetchJson(Health, 'GET', '/healthz'),
    async uploadTree(sha256, tar, { signal } = {}) {
      const input = { tar, signal, timeoutS: TREE_TIMEOUT_S };
      await transport.fetch('PUT', `/v1/trees/${sha256}`, input);
    },
  };
}
