import { chmod, link, lstat, mkdir, open, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { isNativeError } from 'node:util/types';
import { extract } from 'tar-stream';
import type { Header } from 'tar-stream';
import { DenvError } from '../../errors';
import type { FileArchive } from '../driver';
import { makeDirIn } from './rooted-paths';

/**
 * Unpacks an archive into a tree where no process ever ran. Everything is root's, with its mode but for set-id bits.
 * Directories that the image has keep owner and mode.
 * @throws DenvError invalid_request for an entry that would leave its place, through `..`, a link or an absolute name, and
 * for devices and pipes; the tree is then half filled and must be thrown away
 */
export async function unpackFiles(root: string, archive: FileArchive): Promise<void> {
  const base = makeDirIn(root, archive.to);
  const made = new Set<string>();
  const tar = extract();
  const unpacked = (async () => {
    for await (const entry of tar) {
      await unpackEntry(base, entry.header, entry, made);
      entry.resume();
    }
  })();
  try {
    await Promise.all([pipeline(archive.open(), tar), unpacked]);
  } catch (error) {
    throw asRefusal(error, archive.to);
  }
}

/** An archive that cannot be read, or whose entries stand in each other's way, is its sender's mistake. */
function asRefusal(error: unknown, to: string): unknown {
  if (error instanceof DenvError || !isNativeError(error)) return error;
  const { code } = error as NodeJS.ErrnoException;
  const message = `files for ${to}: ${error.message}`;
  if (code === 'ENOSPC') return new DenvError('disk_full', message, { cause: error });
  const ofTheArchive = ['EEXIST', 'EISDIR', 'ENOTDIR', 'ENOTEMPTY', 'ENAMETOOLONG', 'ENOENT'];
  if (code !== undefined && !ofTheArchive.includes(code)) return error;
  return new DenvError('invalid_request', message, { cause: error });
}

async function unpackEntry(
  base: string,
  header: Header,
  content: AsyncIterable<unknown>,
  made: Set<string>,
): Promise<void> {
  const at = await placeOf(base, header.name, made);
  if (at === base && header.type !== 'directory') throw refused(header.name, 'has no name');
  const mode = header.mode & 0o1777;
  switch (header.type) {
    case 'directory':
      if (at !== base) await makeDir(at, made);
      if (made.has(at)) await chmod(at, mode);
      return;
    case 'file':
    case 'contiguous-file':
      await clear(at);
      await writeNew(at, content, mode);
      return;
    case 'symlink':
      await clear(at);
      await symlink(header.linkname, at);
      return;
    case 'link': {
      const target = await placeOf(base, header.linkname, made);
      if (!(await lstat(target).catch(() => null))?.isFile()) {
        throw refused(header.name, `is a hard link to ${header.linkname}, which is no file`);
      }
      await clear(at);
      await link(target, at);
      return;
    }
    case 'block-device':
    case 'character-device':
    case 'fifo':
    default:
      throw refused(header.name, `is a ${header.type}, which may not be unpacked`);
  }
}

async function writeNew(at: string, content: AsyncIterable<unknown>, mode: number): Promise<void> {
  const file = await open(at, 'wx');
  try {
    for await (const chunk of content) await file.writeFile(chunk as Uint8Array); // tar-stream types it as unknown
    await file.chmod(mode);
  } finally {
    await file.close();
  }
}

/** Where an entry goes; its parents are made, and must be directories and no links. */
async function placeOf(base: string, name: string, made: Set<string>): Promise<string> {
  if (name.startsWith('/') || name.includes('\0')) throw refused(name, 'has an absolute name');
  const parts = name.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.includes('..')) throw refused(name, 'leaves its place by ..');
  let dir = base;
  for (const part of parts.slice(0, -1)) {
    dir = path.join(dir, part);
    await makeDir(dir, made).catch((error: unknown) => {
      if (error instanceof DenvError) throw refused(name, `goes through ${part}, a link or file`);
      throw error;
    });
  }
  return parts.length === 0 ? base : path.join(dir, parts.at(-1) ?? '');
}

async function makeDir(dir: string, made: Set<string>): Promise<void> {
  const stat = await lstat(dir).catch(() => null);
  if (stat?.isDirectory()) return;
  if (stat) throw refused(path.basename(dir), 'is not a directory in the image');
  await mkdir(dir);
  await chmod(dir, 0o755);
  made.add(dir);
}

/** Makes room for an entry; a directory stays, and the write that follows then fails. */
async function clear(at: string): Promise<void> {
  if ((await lstat(at).catch(() => null))?.isDirectory() === false) await rm(at);
}

function refused(name: string, why: string): DenvError {
  return new DenvError('invalid_request', `files: entry ${JSON.stringify(name)} ${why}`);
}
