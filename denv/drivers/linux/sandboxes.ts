import { readdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { DenvError } from '../../errors';
import type { SandboxLiveness, SandboxSpec } from '../driver';
import type { Cgroups } from './cgroups';
import { requireSpace } from './data-fs';
import { isThere } from '../../../machine/files';
import type { HelperClient } from '../host/helper-client';
import { checkId } from '../host/layout';
import type { Layout } from '../host/layout';
import { sandboxConfig } from './oci';
import { identify, readBootId } from '../host/processes';
import type { Records } from './records';
import { forgetContainer, startDetached } from './runc';

export interface HostParts {
  layout: Layout;
  helper: HelperClient;
  cgroups: Cgroups;
  records: Records;
  nodePath: string;
}

/** The life of sandboxes: a tree, a record, a cgroup and processes, made in this order and removed in the other. */
export function createSandboxes({ layout, helper, cgroups, records, nodePath }: HostParts) {
  const treeOf = (id: string) => path.join(layout.sandboxes, checkId(id));
  const cgroupOf = (id: string) => `${layout.cgroup}/${checkId(id)}`;

  function findSource(from: SandboxSpec['from']): string {
    const source =
      from.kind === 'base'
        ? path.join(layout.bases, checkId(from.base))
        : path.join(layout.versions, checkId(from.versionId));
    if (isThere(source)) return source;
    if (from.kind === 'base') throw new DenvError('internal', `no base ${from.base}`);
    throw new DenvError('version_not_found', `no version ${from.versionId}`);
  }

  async function create(spec: SandboxSpec): Promise<void> {
    const id = spec.sandboxId;
    const rootfs = treeOf(id);
    const source = findSource(spec.from);
    requireSpace(layout);
    if (exists(id)) await remove(id);

    records.make(id);
    const bundle = records.dirOf(id);
    const config = sandboxConfig(spec, { rootfs, cgroup: cgroupOf(id), nodePath });
    writeFileSync(path.join(bundle, 'config.json'), JSON.stringify(config), { mode: 0o600 });
    records.write(id, { image: spec.image, init: null, ports: {} });
    await helper.copy(source, rootfs);

    const pid = await startDetached(layout, { id, bundle });
    preferToKeep(pid);
    const init = identify(pid);
    if (!init) throw new DenvError('internal', `the first process of ${id} ended at once`);
    records.write(id, { image: spec.image, init, ports: {} });
  }

  function exists(id: string): boolean {
    const places = [treeOf(id), records.dirOf(id), path.join(layout.runcRoot, id)];
    return places.some((place) => isThere(place)) || cgroups.exists(cgroupOf(id));
  }

  function state(id: string): SandboxLiveness {
    if (!isThere(treeOf(id))) return { state: 'absent' };
    const oomKills = countOomKills(id);
    if (records.running(id)) return { state: 'running', oomKills };
    const init = records.read(id)?.init;
    return { state: 'stopped', oomKills, hostRestart: !!init && init.bootId !== readBootId() };
  }

  function countOomKills(id: string): number {
    const cgroup = cgroupOf(id);
    return cgroups.oomKills(cgroup) + records.keptOomKills(id, cgroups.children(cgroup));
  }

  /** Ends all processes and takes their cgroups away, whatever state an earlier process left. */
  async function endProcesses(id: string): Promise<void> {
    const cgroup = cgroupOf(id);
    if (cgroups.exists(cgroup)) {
      await cgroups.kill(cgroup);
      records.keepAllOomKills(id, countOomKills(id));
      await cgroups.remove(cgroup);
    }
    await forgetContainer(layout, id);
  }

  async function stop(id: string): Promise<void> {
    if (!exists(id)) return;
    records.markStopped(id);
    const ports = records.read(id)?.ports ?? {};
    if (Object.keys(ports).length > 0) await helper.unpublish(id);
    await endProcesses(id);
  }

  async function remove(id: string): Promise<void> {
    await stop(id);
    await helper.deleteSubvolume(treeOf(id));
    // conmon may still be writing its last word there.
    await rm(records.dirOf(id), { recursive: true, force: true, maxRetries: 10, retryDelay: 20 });
  }

  /** Every id that something on this host still belongs to. */
  function list(): string[] {
    const runc = isThere(layout.runcRoot) ? readdirSync(layout.runcRoot) : [];
    const found = [
      ...readdirSync(layout.sandboxes),
      ...records.list(),
      ...cgroups.children(layout.cgroup),
      ...runc.filter((id) => !id.startsWith(containerPrefix)),
    ];
    return [...new Set(found)].sort();
  }

  return { treeOf, cgroupOf, create, state, stop, remove, list };
}

export type Sandboxes = ReturnType<typeof createSandboxes>;

/** Names throw-away containers in runc's state, where sandboxes are too. No sandbox id has a dot. */
export const containerPrefix = 'container.';

/** A sandbox out of memory should lose the process that uses it, not its first one. */
function preferToKeep(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, '0');
  } catch {
    // It is a preference: a host may forbid it, and a process that is gone is found out next.
  }
}
