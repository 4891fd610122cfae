import type { ForkRequest, RetainRequest, VerifyRequest } from '../../contracts/denv';
import { ForkReply, VerifyReply, Version, VersionDiff, VersionList } from '../../contracts/denv';
import type { KeyedOptions, Operations } from './operations';
import { toQuery, type Transport } from './transport';

export interface VersionFilter {
  owner?: string;
  rolloutId?: string;
  sandbox?: string;
  /** Also measures, now, what each of them alone holds on disk. */
  size?: boolean;
}

export interface VersionCalls {
  forkVersion(versionId: string, request: ForkRequest, options: KeyedOptions): Promise<ForkReply>;
  verifyVersion(
    versionId: string,
    request: VerifyRequest,
    options: KeyedOptions,
  ): Promise<VerifyReply>;
  /** @param options.size  also measures, now, what this version alone holds on disk */
  getVersion(versionId: string, options?: { size?: boolean }): Promise<Version>;
  /** Versions taken of sandboxes, by their labels and by what they were taken of; oldest first. */
  listVersions(filter?: VersionFilter): Promise<VersionList>;
  /**
   * Succeeds when the version is gone, also when it was never there.
   * @throws DenvError version_in_use, with `usedBy` in its details, while a sandbox made from it lives or an operation needs it
   */
  deleteVersion(versionId: string): Promise<void>;
  /** Moves the end of its retention. Idempotent. */
  retainVersion(versionId: string, request: RetainRequest): Promise<Version>;
  /** Lists the files that differ, `a` being what was before. */
  diffVersions(a: string, b: string): Promise<VersionDiff>;
  /**
   * Reads a file of the frozen tree. No link is followed.
   * @throws DenvError invalid_request when it is not there, not a regular file, or larger than 64 MiB
   */
  readVersionFile(versionId: string, path: string): Promise<Buffer>;
}

const DELETE_TIMEOUT_S = 180;
const FILES_TIMEOUT_S = 360;
/** For calls that read through whole trees. */
const WALK_TIMEOUT_S = 300;

export function createVersionCalls(transport: Transport, operations: Operations): VersionCalls {
  return {
    forkVersion: (id, body, options) =>
      operations.run(ForkReply, `${pathOf(id)}/fork`, body, options),
    verifyVersion: (id, body, options) =>
      operations.run(VerifyReply, `${pathOf(id)}/verify`, body, options),
    getVersion(id, { size = false } = {}) {
      const path = `${pathOf(id)}${size ? '?size=1' : ''}`;
      return transport.fetchJson(Version, 'GET', path, { timeoutS: WALK_TIMEOUT_S });
    },
    listVersions({ size = false, ...filter } = {}) {
      const path = `/v1/versions?${toQuery({ ...filter, size: size ? '1' : undefined })}`;
      return transport.fetchJson(VersionList, 'GET', path, { timeoutS: WALK_TIMEOUT_S });
    },
    async deleteVersion(id) {
      await transport.fetch('DELETE', pathOf(id), { timeoutS: DELETE_TIMEOUT_S });
    },
    retainVersion: (id, body) =>
      transport.fetchJson(Version, 'POST', `${pathOf(id)}/retain`, { body }),
    diffVersions(a, b) {
      const path = `${pathOf(a)}/diff/${encodeURIComponent(b)}`;
      return transport.fetchJson(VersionDiff, 'GET', path, { timeoutS: WALK_TIMEOUT_S });
    },
    readVersionFile(id, path) {
      const at = `${pathOf(id)}/files?path=${encodeURIComponent(path)}`;
      return transport.fetchBytes(at, { timeoutS: FILES_TIMEOUT_S });
    },
  };
}

const pathOf = (versionId: string) => `/v1/versions/${encodeURIComponent(versionId)}`;
