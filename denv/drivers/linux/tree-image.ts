import { createHash } from 'node:crypto';
import { appendFileSync, chmodSync, createReadStream, realpathSync, statSync } from 'node:fs';
import { lstat, readdir, readlink } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { DenvError } from '../../errors';
import type { ImageSource } from '../driver';
import { readIfThere } from '../../../machine/files';
import { runCommand } from '../host/programs';
import { makeDirIn, resolveInRoot } from './rooted-paths';

/** Images from a directory or a tar archive on the host. */
export type TreeImage = Extract<ImageSource, { kind: 'dir' | 'tar' }>;
/** What this driver makes sandboxes from. */
export type LocalImage = Extract<ImageSource, { kind: 'host' | 'dir' | 'tar' }>;

/** @throws DenvError invalid_request for what belongs to another target */
export function localImage(image: ImageSource): LocalImage {
  if (image.kind !== 'docker' && image.kind !== 'tcp') return image;
  throw new DenvError('invalid_request', `target linux has no images of kind ${image.kind}`);
}

/**
 * The image's real path, if it is below one of the roots that the operator allows.
 * @throws DenvError image_not_found
 */
export function locateImage(image: TreeImage, imageRoots: string[]): string {
  const name = `${image.kind}:${image.path}`;
  const real = realOrNull(image.path);
  const allowed = imageRoots
    .map(realOrNull)
    .some((root) => root !== null && real !== null && isBelow(real, root));
  if (!allowed || real === null) {
    // One answer for "not there" and "not allowed": the API does not tell what exists elsewhere on the host.
    throw new DenvError(
      'image_not_found',
      `image ${name} is not below an allowed directory; the server allows (DENV_IMAGE_DIRS): ${imageRoots.join(', ') || '(none)'}`,
    );
  }
  const stat = statSync(real);
  if (image.kind === 'dir' ? stat.isDirectory() : stat.isFile()) return real;
  throw new DenvError('image_not_found', `image ${name} is not a ${image.kind}`);
}

/** Content of an archive, or names, kinds, sizes, owners, modes and times of a directory's entries. */
export async function fingerprint(image: TreeImage, real: string): Promise<string> {
  const hash = createHash('sha256').update(`${image.kind}\n`);
  if (image.kind === 'tar') await pipeline(createReadStream(real), hash);
  else await fingerprintDir(real, '', (line) => hash.update(line));
  return hash.digest('hex');
}

/**
 * Fills an empty tree. Devices are left out: a sandbox has its own /dev.
 * @throws DenvError image_not_found when a sandbox could not start from it
 */
export async function makeImageTree(image: TreeImage, real: string, root: string): Promise<void> {
  if (image.kind === 'dir') {
    await runCommand('cp', ['-a', '--one-file-system', '--reflink=auto', `${real}/.`, root]);
  } else {
    const args = ['--extract', '--numeric-owner', '--preserve-permissions', '--exclude=./dev/*'];
    await runCommand('tar', [...args, '--exclude=dev/*', '--file', real, '--directory', root]);
  }
  const has = (program: string): boolean =>
    statSync(resolveInRoot(root, program), { throwIfNoEntry: false })?.isFile() ?? false;
  const missing = !has('/bin/sh')
    ? '/bin/sh'
    : has('/bin/sleep') || has('/usr/bin/sleep')
      ? null
      : 'sleep';
  if (missing === null) return;
  throw new DenvError(
    'image_not_found',
    `image ${image.kind}:${image.path} has no ${missing}, which the first process of a sandbox needs`,
  );
}

/** What a sandbox has in every image: places to write, mount points, and a name for uid 1000. */
export function completeTree(root: string): void {
  chmodSync(root, 0o755);
  for (const dir of ['/workspace', '/home/agent']) {
    makeDirIn(root, dir, { mode: 0o755, owner: 1000 });
  }
  for (const dir of ['/tmp', '/var/tmp']) makeDirIn(root, dir, { mode: 0o1777, owner: 0 });
  for (const dir of ['/etc', '/run', '/proc', '/sys', '/dev']) makeDirIn(root, dir);
  makeDirIn(root, '/root', { mode: 0o700, owner: 0 });
  addUser(root, '/etc/passwd', 'agent:x:1000:1000:agent:/home/agent:/bin/sh');
  addUser(root, '/etc/group', 'agent:x:1000:');
}

function addUser(root: string, file: string, line: string): void {
  const at = resolveInRoot(root, file);
  const text = readIfThere(at) ?? '';
  if (text.split('\n').some((entry) => entry.split(':')[2] === '1000')) return;
  const gap = text === '' || text.endsWith('\n') ? '' : '\n';
  appendFileSync(at, `${gap}${line}\n`);
  if (text === '') chmodSync(at, 0o644);
}

async function fingerprintDir(
  top: string,
  inside: string,
  add: (line: string) => void,
): Promise<void> {
  for (const name of (await readdir(path.join(top, inside))).sort()) {
    const relative = path.join(inside, name);
    const stat = await lstat(path.join(top, relative));
    const target = stat.isSymbolicLink() ? await readlink(path.join(top, relative)) : '';
    const { mode, uid, gid, mtimeMs } = stat;
    const size = stat.isFile() ? stat.size : 0;
    const time = stat.isDirectory() ? 0 : mtimeMs;
    add(`${JSON.stringify([relative, mode, uid, gid, size, time, target])}\n`);
    if (stat.isDirectory()) await fingerprintDir(top, relative, add);
  }
}

const isBelow = (file: string, dir: string): boolean =>
  file === dir || file.startsWith(dir === '/' ? dir : `${dir}/`);

function realOrNull(file: string): string | null {
  try {
    return realpathSync(file);
  } catch {
    return null;
  }
}
