import { mkdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { DenvError } from '../../errors';
import type { SandboxDriver, TreeName } from '../driver';
import { createAttachedExecs } from './exec/attached';
import { createBases } from './bases';
import { createCgroups } from './cgroups';
import type { Cgroups } from './cgroups';
import { createContainers } from './containers';
import { closeDataFs, freeBytes, openDataFs } from './data-fs';
import { createExecs } from './exec/start';
import { readIfThere } from '../../../machine/files';
import { HelperClient } from '../host/helper-client';
import { layoutOf } from '../host/layout';
import type { Layout } from '../host/layout';
import { createPorts } from './ports';
import { probeHost } from './probe';
import { readBootId } from '../host/processes';
import { findProgram } from '../../../machine/programs';
import { findPython } from '../host/programs';
import { createRecords } from './records';
import { createSandboxes } from './sandboxes';
import { diffTrees, exclusiveBytes } from './tree-diff';
import { createVersions } from './versions';

export interface LinuxDriverOptions {
  dataDir: string;
  /** Size of the sparse file for the trees, where the data directory is not btrfs. */
  loopSizeGb?: number;
  /** The node that sandboxes of image `host` get. */
  nodePath?: string;
  /** Directories below which `dir:` and `tar:` images may be. */
  imageRoots?: string[];
}

const programs = { runc: 'runc', conmon: 'conmon', 'mkfs.btrfs': 'btrfs-progs' };

/**
 * Sandboxes on one Linux host, as root: btrfs subvolumes, runc, a cgroup for each sandbox and each exec, a network namespace
 * without a route.
 */
export function createLinuxDriver(options: LinuxDriverOptions): SandboxDriver {
  mkdirSync(options.dataDir, { recursive: true, mode: 0o700 });
  const layout = layoutOf(options.dataDir);
  const nodePath = options.nodePath ?? process.execPath;
  const records = createRecords(layout);
  const cgroups = createCgroups();
  const helper = new HelperClient(layout, callerUids(), () => ports.republish());
  const ports = createPorts({ helper, records });
  const parts = { layout, helper, records, nodePath, cgroups };
  const sandboxes = createSandboxes(parts);
  const versions = createVersions(parts, sandboxes);
  const execs = createExecs(parts, sandboxes);
  const attachedExecs = createAttachedExecs(parts, sandboxes);
  const containers = createContainers(parts);
  const imageRoots = options.imageRoots ?? [];
  const bases = createBases(layout, helper, { imageRoots, nodePath });

  const treeOf = (tree: TreeName) =>
    tree.kind === 'base' ? bases.pathOf(tree.base) : versions.pathOf(tree.versionId);

  async function open(): Promise<void> {
    requirePrograms();
    await openDataFs(layout, options.loopSizeGb ?? 40);
    await freshRuntimeDir(layout);
    // Held until shutdown, so the parent that all data directories share is never removed under a sandbox being made.
    for (const cgroup of [layout.cgroup, layout.containerCgroup]) cgroups.makeParent(cgroup);
    const { restarted } = await helper.ensure();
    // A helper that was adopted may be at work for a server that died; what is frozen after that, nobody will thaw.
    await helper.drain();
    for (const id of cgroups.children(layout.cgroup)) cgroups.thaw(sandboxes.cgroupOf(id));
    await attachedExecs.sweep();
    if (restarted) await ports.republish();
    await bases.sweep();
  }

  async function shutdown(): Promise<void> {
    for (const id of sandboxes.list()) await sandboxes.stop(id);
    for (const id of containers.list()) await containers.remove(id);
    await helper.quit();
    await closeDataFs(layout);
    await removeCgroups(cgroups, layout);
    await rm(layout.runtimeDir, { recursive: true, force: true });
  }

  const driver: SandboxDriver = {
    name: 'linux',
    open,
    close: async () => helper.letGo(),
    shutdown,
    probe: () => probeHost(driver, cgroups, layout),
    freeBytes: async () => freeBytes(layout),
    prepareBase: (image, files) => bases.prepare(image, files),
    create: sandboxes.create,
    state: async (id) => sandboxes.state(id),
    stop: sandboxes.stop,
    remove: sandboxes.remove,
    list: async () => sandboxes.list(),
    snapshot: versions.take,
    changedSince: (id, since) => helper.changed(sandboxes.treeOf(id), treeOf(since)),
    versionBytes: (id) => exclusiveBytes(versions.pathOf(id)),
    diff: (a, b, limit) => diffTrees(treeOf(a), treeOf(b), limit),
    hasVersion: async (id) => versions.has(id),
    removeVersion: versions.remove,
    listVersions: async () => versions.list(),
    versionPath: versions.pathOf,
    basePath: bases.pathOf,
    startExec: execs.start,
    openExec: execs.open,
    attachExec: attachedExecs.attach,
    connect: ports.connect,
    publish: ports.publish,
    runContainer: containers.run,
    removeContainer: containers.remove,
  };
  return driver;
}

/** @throws DenvError capability_missing, with what to install */
function requirePrograms(): void {
  if (process.getuid?.() !== 0) {
    throw new DenvError(
      'capability_missing',
      'the linux driver needs root: start the server as root',
    );
  }
  findPython();
  const missing = Object.entries(programs)
    .filter(([program]) => findProgram(program) === null)
    .map(([, debianPackage]) => debianPackage);
  if (missing.length === 0) return;
  throw new DenvError(
    'capability_missing',
    `the linux driver lacks programs; on Debian: apt-get install ${missing.join(' ')}`,
  );
}

/** After a reboot the runtime directory may still be there, on hosts where /run is on disk; nothing in it holds then. */
async function freshRuntimeDir(layout: Layout): Promise<void> {
  const stamp = path.join(layout.runtimeDir, 'boot-id');
  if (readIfThere(stamp) === readBootId()) return;
  await rm(layout.runtimeDir, { recursive: true, force: true });
  mkdirSync(layout.runcRoot, { recursive: true, mode: 0o700 });
  writeFileSync(stamp, readBootId(), { mode: 0o600 });
}

/** Who may use published ports: root, who runs the server, and who called it through sudo. */
function callerUids(): number[] {
  const sudo = Number(process.env.SUDO_UID ?? 0);
  return [...new Set([0, process.getuid?.() ?? 0, Number.isInteger(sudo) ? sudo : 0])];
}

/** The parents that sandboxes' cgroups were in; the one shared by all data directories only when it is empty. */
async function removeCgroups(cgroups: Cgroups, layout: Layout): Promise<void> {
  await cgroups.remove(layout.cgroup);
  await cgroups.remove(layout.containerCgroup);
  cgroups.removeIfEmpty(path.dirname(layout.cgroup));
}
