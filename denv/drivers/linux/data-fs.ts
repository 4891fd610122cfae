import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  statfsSync,
} from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { DenvError } from '../../errors';
import type { Layout } from '../host/layout';
import { readIfThere } from '../../../machine/files';
import { runCommand } from '../host/programs';

const btrfsMagic = 0x9123683e;
const gib = 1024 ** 3;

/** Host space below which nothing new is made: a loop file that cannot grow gives EIO to every sandbox at once. */
export const minFreeBytes = gib;

/**
 * Makes sure that `fsDir` is on btrfs: a directory when the data directory is, else a loop mount of a sparse file. Finds
 * what an earlier process mounted or attached, so there is never a second loop device.
 * @throws DenvError disk_full
 */
export async function openDataFs(layout: Layout, loopSizeGb: number): Promise<void> {
  mkdirSync(layout.fsDir, { recursive: true, mode: 0o700 });
  if (!isBtrfs(layout.fsDir)) {
    await makeImage(layout, loopSizeGb);
    // No set-id bits and no devices in any tree, whatever an image or archive holds; no atime writes that undo sharing.
    const options = 'noatime,nosuid,nodev,discard=async';
    const device = attachedLoop(layout.imageFile);
    if (device) await runCommand('mount', ['-t', 'btrfs', '-o', options, device, layout.fsDir]);
    else
      await runCommand('mount', [
        '-t',
        'btrfs',
        '-o',
        `loop,${options}`,
        layout.imageFile,
        layout.fsDir,
      ]);
  }
  for (const dir of [layout.bases, layout.sandboxes, layout.versions, layout.containers]) {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
  }
}

/**
 * Unmounts what `openDataFs` mounted, and waits until its loop device is gone. The kernel detaches that when the last program
 * closes it, which may be one that looks through all disks, as mkfs and mount do. A program that keeps it open is not waited for.
 */
export async function closeDataFs(layout: Layout): Promise<void> {
  if (isMountPoint(layout.fsDir)) await runCommand('umount', [layout.fsDir]);
  const end = Date.now() + 10_000;
  while (attachedLoop(layout.imageFile) !== null && Date.now() < end) await sleep(20);
}

/** Free bytes for data: on the host's disk, or in the loop file where that is less. */
export function freeBytes(layout: Layout): number {
  const free = (at: string) => {
    const { bavail, bsize } = statfsSync(at);
    return bavail * bsize;
  };
  return Math.min(free(layout.dataDir), free(layout.fsDir));
}

/** @throws DenvError disk_full */
export function requireSpace(layout: Layout): void {
  const free = freeBytes(layout);
  if (free >= minFreeBytes) return;
  throw new DenvError(
    'disk_full',
    `${layout.dataDir} has ${Math.floor(free / 2 ** 20)} MB free; 1024 MB are needed before anything new is made`,
  );
}

async function makeImage(layout: Layout, loopSizeGb: number): Promise<void> {
  if (readdirSync(layout.dataDir).includes(path.basename(layout.imageFile))) return;
  requireSpace(layout);
  const half = `${layout.imageFile}.tmp`;
  await rm(half, { force: true });
  const file = openSync(half, 'wx', 0o600);
  try {
    ftruncateSync(file, loopSizeGb * gib);
  } finally {
    closeSync(file);
  }
  await runCommand('mkfs.btrfs', ['-q', '-d', 'single', '-m', 'single', half]);
  await rename(half, layout.imageFile);
}

const isBtrfs = (dir: string): boolean => statfsSync(dir).type === btrfsMagic;

function isMountPoint(dir: string): boolean {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8');
  return mounts.split('\n').some((line) => unescapeMount(line.split(' ')[4] ?? '') === dir);
}

/** The kernel writes blanks in a path as octal. */
const unescapeMount = (text: string): string =>
  text.replace(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(parseInt(octal, 8)));

/** A loop device that has the file already, from a process that died before it mounted, or from another mount namespace. */
function attachedLoop(imageFile: string): string | null {
  for (const name of readdirSync('/sys/block')) {
    const backing = readIfThere(`/sys/block/${name}/loop/backing_file`)?.trimEnd();
    if (backing === imageFile) return `/dev/${name}`;
  }
  return null;
}
