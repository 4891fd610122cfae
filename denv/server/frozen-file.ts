import { constants } from 'node:fs';
import { type FileHandle, lstat, open } from 'node:fs/promises';
import { DenvError } from '../errors';

const { O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;

/**
 * A regular file below `root`, which no process changes. Each component is opened under its parent and never through a link,
 * so the host's own files cannot be reached.
 * @throws DenvError invalid_request when it is not there, not a regular file, behind a link or larger than `maxBytes`
 */
export async function readFrozenFile(
  root: string,
  path: string,
  maxBytes: number,
): Promise<Buffer> {
  const refuse = (why: string) => new DenvError('invalid_request', `path: ${path}: ${why}`);
  const parts = path.split('/').filter((part) => part !== '' && part !== '.');
  if (parts.length === 0) throw refuse('a folder');
  let at = await open(root, O_RDONLY | O_DIRECTORY);
  try {
    for (const [n, part] of parts.entries()) {
      const next = await openUnder(at, part, n < parts.length - 1, refuse);
      await at.close();
      at = next;
    }
    const data = Buffer.alloc(Math.min((await at.stat()).size, maxBytes + 1));
    const { bytesRead } = await at.read(data, 0, data.length, 0);
    if (bytesRead > maxBytes) throw refuse(`larger than ${maxBytes} bytes`);
    return data.subarray(0, bytesRead);
  } finally {
    await at.close();
  }
}

async function openUnder(
  parent: FileHandle,
  name: string,
  folder: boolean,
  refuse: (why: string) => DenvError,
): Promise<FileHandle> {
  if (name === '..' || name.includes('\0')) throw refuse(`bad name ${JSON.stringify(name)}`);
  const target = `/proc/self/fd/${parent.fd}/${name}`;
  const stat = await lstat(target).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENAMETOOLONG') throw refuse('not there');
    throw error;
  });
  if (stat.isSymbolicLink()) throw refuse(`${name} is a symbolic link`);
  if (folder && !stat.isDirectory()) throw refuse(`${name} is not a folder`);
  if (!folder && stat.isDirectory()) throw refuse('a folder');
  if (!folder && !stat.isFile()) throw refuse('not a regular file');
  return open(target, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | (folder ? O_DIRECTORY : 0));
}
