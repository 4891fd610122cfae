import { createHash } from 'node:crypto';
import { existsSync, readdirSync, statSync } from 'node:fs';
import { rename } from 'node:fs/promises';
import path from 'node:path';
import { DenvError } from '../../errors';
import type { FileArchive, ImageSource } from '../driver';
import { requireSpace } from './data-fs';
import type { HelperClient } from '../host/helper-client';
import { hostDigest, hostTopLevel, makeHostTree } from './host-image';
import { checkId } from '../host/layout';
import type { Layout } from '../host/layout';
import { completeTree, fingerprint, localImage, locateImage, makeImageTree } from './tree-image';
import type { LocalImage, TreeImage } from './tree-image';
import { unpackFiles } from './unpack';

const halfMade = '.tmp-';

export interface Base {
  base: string;
  digest: string;
  reproducible: boolean;
}

/**
 * Prepared read-only trees, named by what is in them and kept. Each is made under a temporary name in the same directory and
 * renamed when it is whole and read-only, so a name that exists is complete. The same tree is made once at a time.
 */
export function createBases(
  layout: Layout,
  helper: HelperClient,
  settings: { imageRoots: string[]; nodePath: string },
) {
  const underWay = new Map<string, Promise<void>>();
  const fingerprints = new Map<string, Promise<string>>();
  let host: string | undefined;

  async function imageDigest(image: LocalImage): Promise<{ digest: string; real: string }> {
    if (image.kind === 'host') {
      host ??= hostDigest(settings.nodePath);
      return { digest: host, real: '/' };
    }
    const real = locateImage(image, settings.imageRoots);
    return { digest: await fingerprintOnce(image, real), real };
  }

  /** An archive is read again only when its file changed; a directory each time, but once for all who ask meanwhile. */
  async function fingerprintOnce(image: TreeImage, real: string): Promise<string> {
    const { size, mtimeMs, ino } = statSync(real);
    const key = JSON.stringify(image.kind === 'tar' ? [real, size, mtimeMs, ino] : [real]);
    const known = fingerprints.get(key) ?? fingerprint(image, real);
    fingerprints.set(key, known);
    const forget = () => fingerprints.delete(key);
    if (image.kind === 'dir') void known.then(forget, forget);
    else known.catch(forget);
    return known;
  }

  async function makeOnce(name: string, fill: (half: string) => Promise<void>): Promise<void> {
    const running = underWay.get(name);
    if (running) return running;
    if (existsSync(path.join(layout.bases, name))) return;
    const making = make(name, fill).finally(() => underWay.delete(name));
    underWay.set(name, making);
    return making;
  }

  async function make(name: string, fill: (half: string) => Promise<void>): Promise<void> {
    requireSpace(layout);
    const half = path.join(layout.bases, `${halfMade}${name}`);
    await helper.deleteSubvolume(half);
    try {
      await fill(half);
      await helper.makeReadOnly(half);
    } catch (error) {
      await helper.deleteSubvolume(half);
      throw error;
    }
    await rename(half, path.join(layout.bases, name));
  }

  return {
    /** Removes what a process left half made that died over it. */
    async sweep(): Promise<void> {
      const half = readdirSync(layout.bases).filter((name) => name.startsWith(halfMade));
      for (const name of half) await helper.deleteSubvolume(path.join(layout.bases, name));
    },

    pathOf: (base: string): string => path.join(layout.bases, checkId(base)),

    /** @throws DenvError image_not_found, invalid_request (an archive that would escape), disk_full */
    async prepare(source: ImageSource, files: FileArchive[]): Promise<Base> {
      const image = localImage(source);
      const { digest, real } = await imageDigest(image);
      await makeOnce(digest, async (half) => {
        await helper.createSubvolume(half);
        if (image.kind === 'host') makeHostTree(half);
        else await makeImageTree(image, real, half);
        completeTree(half);
      });
      const reproducible = image.kind !== 'host';
      for (const { to } of files) refuseHidden(image, to);
      let base = digest;
      // A base for each archive more: a large one that comes first is unpacked once for all that differ after it.
      for (const [i, archive] of files.entries()) {
        const below = path.join(layout.bases, base);
        base = withFiles(digest, files.slice(0, i + 1));
        await makeOnce(base, async (half) => {
          await helper.copy(below, half);
          await unpackFiles(half, archive);
        });
      }
      return { base, digest: `sha256:${base}`, reproducible };
    },
  };
}

/** Archives are unpacked in the order given, and a later one may replace files of an earlier one: order counts. */
function withFiles(imageDigest: string, files: FileArchive[]): string {
  const hash = createHash('sha256').update(imageDigest);
  for (const { to, sha256 } of files) hash.update(`\n${JSON.stringify(to)} ${sha256}`);
  return hash.digest('hex');
}

/** Below a mount the files would be there and never be seen. */
function refuseHidden(image: ImageSource, to: string): void {
  const top = to.split('/').find((part) => part !== '') ?? '';
  const hidden = [
    'proc',
    'sys',
    'dev',
    ...(image.kind === 'host' ? ['usr', ...hostTopLevel()] : []),
  ];
  if (!hidden.includes(top)) return;
  throw new DenvError(
    'invalid_request',
    `files: in image ${image.kind}, /${top} is not part of the tree; unpack ${to} elsewhere`,
  );
}
