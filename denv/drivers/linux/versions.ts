import { readdirSync } from 'node:fs';
import path from 'node:path';
import { DenvError } from '../../errors';
import type { SnapshotTimings } from '../driver';
import { requireSpace } from './data-fs';
import { isThere } from '../../../machine/files';
import { HelperError } from '../host/helper-socket';
import { checkId } from '../host/layout';
import type { HostParts, Sandboxes } from './sandboxes';

/** Frozen trees: read-only snapshots of sandboxes. One that exists is whole, as the kernel makes it in one step. */
export function createVersions(parts: HostParts, sandboxes: Sandboxes) {
  const { layout, helper, cgroups, records } = parts;
  const pathOf = (versionId: string) => path.join(layout.versions, checkId(versionId));

  /**
   * Idempotent by `versionId`: a version that is there stays as it is.
   * @throws DenvError sandbox_not_found, disk_full, unavailable (it would not freeze; it has been thawed)
   */
  async function take(
    sandboxId: string,
    versionId: string,
    options: { stop: boolean },
  ): Promise<SnapshotTimings> {
    const source = sandboxes.treeOf(sandboxId);
    if (!isThere(source)) {
      throw new DenvError('sandbox_not_found', `no sandbox ${sandboxId} to snapshot`);
    }
    let timings: SnapshotTimings = { pausedMs: null, flushMs: null };
    if (!isThere(pathOf(versionId))) {
      requireSpace(layout);
      const cgroup = records.running(sandboxId) ? sandboxes.cgroupOf(sandboxId) : null;
      if (options.stop) records.markStopped(sandboxId);
      try {
        timings = await helper.snapshot({
          source,
          target: pathOf(versionId),
          readOnly: true,
          flush: true,
          cgroup: cgroup === null ? null : cgroups.directory(cgroup),
          kill: options.stop,
        });
      } catch (error) {
        // Its helper may have died between freezing and thawing.
        if (cgroup !== null) cgroups.thaw(cgroup);
        if (options.stop) records.unmarkStopped(sandboxId);
        throw snapshotError(error, sandboxId);
      }
    }
    if (options.stop) await sandboxes.stop(sandboxId);
    return timings;
  }

  return {
    take,
    pathOf,
    has: (versionId: string): boolean => isThere(pathOf(versionId)),
    remove: (versionId: string): Promise<void> => helper.deleteSubvolume(pathOf(versionId)),
    list: (): string[] => readdirSync(layout.versions).sort(),
  };
}

function snapshotError(error: unknown, sandboxId: string): unknown {
  if (!(error instanceof HelperError)) return error;
  const message = `snapshot of sandbox ${sandboxId}: ${error.message}`;
  if (error.code === 'no_space') return new DenvError('disk_full', message, { cause: error });
  if (error.code === 'timeout') return new DenvError('unavailable', message, { cause: error });
  return new DenvError('internal', message, { cause: error });
}
