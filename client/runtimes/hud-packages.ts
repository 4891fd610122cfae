import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { FilesRef } from '../../contracts/task';
import type { LocalTree } from '../../tasks/placement';
import { streamTree } from '../../tasks/tree-tar';
import { UsageError } from '../errors';

/** Where sandboxes have it. */
export const packagesPath = '/opt/hud';

/**
 * HUD's Python package as scripts/setup-hud made it for sandboxes of image `host`. Packed once for each blob store: what that
 * has kept is known by the stamp of the set-up, so nothing of the 300 MB is read again.
 * @throws UsageError when it is not there
 */
export function hudPackages(): LocalTree {
  const missing = packagesMissing();
  if (missing !== null) throw new UsageError(`local HUD environments need ${missing}`);
  const folder = join(repository(), '.hud');
  return {
    async pack(blobs) {
      const stamp = await readFile(join(folder, 'make_packages.stamp')).catch(() => null);
      if (stamp === null) {
        throw new UsageError(`${folder} is half made; make it whole with: npm run setup:hud`);
      }
      const name = `hud-packages/${createHash('sha256').update(stamp).digest('hex')}`;
      const known = await blobs.find(name);
      if (known) return FilesRef.parse(JSON.parse(known.toString()));
      const { ref, bytes } = await blobs.putStream(streamTree(join(folder, 'packages')));
      const packed: FilesRef = { to: packagesPath, ref, bytes };
      await blobs.putIfAbsent(name, Buffer.from(JSON.stringify(packed)));
      return packed;
    },
  };
}

/** Null when it is there. */
export function packagesMissing(): string | null {
  const folder = join(repository(), '.hud', 'packages');
  return existsSync(folder) ? null : `${folder}; make it with: npm run setup:hud`;
}

/** The folder of this project, from its sources as from dist/. */
function repository(): string {
  let folder = __dirname;
  while (!existsSync(join(folder, 'package.json'))) folder = dirname(folder);
  return folder;
}
