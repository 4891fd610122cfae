import { lstat, readdir, readFile, readlink } from 'node:fs/promises';
import { basename, dirname, join, posix, relative, resolve, sep } from 'node:path';
import { pack } from 'tar-stream';
import type { Header, Pack } from 'tar-stream';

/** The file contents of one tree may be this large together. */
export const treeLimitMb = 64;

/** A tree that cannot be packed as it stands. */
export class TreeRefusedError extends Error {
  override readonly name = 'TreeRefusedError';
}

interface TreeEntry {
  header: Partial<Header> & { name: string };
  path: string | null;
}

export interface TreeOptions {
  /** Names of files and folders that stay behind, wherever they stand. */
  without?: string[];
  /** Whoever runs in the sandbox may write to all of it, the folder itself included. */
  writable?: boolean;
}

/**
 * A file or folder as a tar archive that depends on names, contents and modes alone: entries sorted, times zero, owner
 * root. Links are kept when they stay inside the folder.
 * @param to  where it goes in the sandbox. A file takes this path itself, or goes below it when it ends in `/`; a folder's
 *   entries go below it
 * @throws TreeRefusedError a link that leads out, a socket, pipe or device, or too large a tree
 */
export async function packTree(
  from: string,
  to: string,
  options: TreeOptions = {},
): Promise<{ to: string; tar: Buffer }> {
  const found = await lstat(from);
  if (found.isDirectory()) {
    const entries = await folderEntries(from, options);
    if (!options.writable) return { to, tar: await packEntries(entries, from) };
    return {
      to: posix.dirname(to),
      tar: await packEntries(writable(entries, posix.basename(to)), from),
    };
  }
  if (!found.isFile()) throw new TreeRefusedError(`${from} is neither a file nor a folder`);
  const below = to.endsWith('/');
  const name = below ? basename(from) : posix.basename(to);
  const entry = { header: header(name, found.mode, found.size), path: from };
  return { to: below ? to : posix.dirname(to), tar: await packEntries([entry], from) };
}

/** A folder of any size as a tar archive, in pieces; otherwise like `packTree`. */
export async function* streamTree(from: string): AsyncGenerator<Uint8Array> {
  const entries = await folderEntries(from, {});
  const archive = pack();
  const filled = fill(archive, entries);
  filled.catch((error: unknown) => archive.destroy(error as Error)); // made by fs or tar-stream
  yield* archive as AsyncIterable<Uint8Array>; // bytes, always
  await filled;
}

/** Below a folder of this name, which an unpacker makes, so that its mode is the archive's. */
function writable(entries: TreeEntry[], name: string): TreeEntry[] {
  const folder = { header: { ...header(name, 0o777, 0), type: 'directory' as const }, path: null };
  const below = entries.map(({ header: head, path }) => ({
    header: { ...head, name: `${name}/${head.name}`, mode: (head.mode ?? 0) | 0o222 },
    path,
  }));
  return [folder, ...below];
}

async function folderEntries(root: string, { without }: TreeOptions): Promise<TreeEntry[]> {
  const entries: TreeEntry[] = [];
  const walk = async (folder: string): Promise<void> => {
    // By code unit: the same on every machine, whatever its locale.
    const all = (await readdir(folder)).sort((a, b) => (a < b ? -1 : 1));
    const names = without ? all.filter((name) => !without.includes(name)) : all;
    for (const name of names) {
      const path = join(folder, name);
      const found = await lstat(path);
      const inside = relative(root, path).split(sep).join('/');
      if (found.isDirectory()) {
        entries.push({
          header: { ...header(inside, found.mode, 0), type: 'directory' },
          path: null,
        });
        await walk(path);
      } else if (found.isSymbolicLink()) {
        const linkname = await linkInside(root, path);
        entries.push({
          header: { ...header(inside, 0o777, 0), type: 'symlink', linkname },
          path: null,
        });
      } else if (found.isFile()) {
        entries.push({ header: header(inside, found.mode, found.size), path });
      } else {
        throw new TreeRefusedError(
          `${path} is a socket, pipe or device; only files, folders and links are packed`,
        );
      }
    }
  };
  await walk(root);
  return entries;
}

async function linkInside(root: string, path: string): Promise<string> {
  const target = await readlink(path);
  const lands = resolve(dirname(path), target);
  const inside = lands === resolve(root) || lands.startsWith(resolve(root) + sep);
  if (target.startsWith('/') || !inside) {
    throw new TreeRefusedError(`the link ${path} leads out of ${root}, to ${target}`);
  }
  return target;
}

function header(name: string, mode: number, size: number): TreeEntry['header'] {
  return { name, mode: mode & 0o777, size, mtime: new Date(0), uid: 0, gid: 0, type: 'file' };
}

async function packEntries(entries: TreeEntry[], from: string): Promise<Buffer> {
  const bytes = entries.reduce((sum, { header: { size } }) => sum + (size ?? 0), 0);
  if (bytes > treeLimitMb * 2 ** 20) {
    const mb = Math.ceil(bytes / 2 ** 20);
    throw new TreeRefusedError(
      `${from} has ${mb} MB and a packed tree may have ${treeLimitMb}: leave out what the task does not need, or put it into the image`,
    );
  }
  const archive = pack();
  const chunks: Buffer[] = [];
  archive.on('data', (chunk) => chunks.push(chunk as Buffer)); // bytes, always
  const ended = new Promise<void>((done, failed) => archive.on('end', done).on('error', failed));
  await fill(archive, entries);
  await ended;
  return Buffer.concat(chunks);
}

/** Waits for a reader that is slower than the disk. */
async function fill(archive: Pack, entries: TreeEntry[]): Promise<void> {
  for (const { header: head, path } of entries) {
    const data = path === null ? null : await readFile(path);
    await new Promise<void>((done, failed) => {
      const taken = (error?: Error | null) => (error ? failed(error) : done());
      if (data === null) archive.entry(head, taken);
      else archive.entry({ ...head, size: data.length }, data, taken);
    });
  }
  archive.finalize();
}
