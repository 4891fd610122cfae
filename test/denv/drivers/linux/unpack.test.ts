import { lstatSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { unpackFiles } from '../../../../denv/drivers/linux/unpack';
import { archiveOf, tarOf } from '../../driver-suite';

describe('unpackFiles', () => {
  let root: string;
  const unpack = async (...entries: Parameters<typeof tarOf>[0]) =>
    unpackFiles(root, archiveOf('/', await tarOf(entries)));
  const modeOf = (name: string) => (lstatSync(path.join(root, name)).mode & 0o7777).toString(8);

  beforeEach(() => {
    root = mkdtempSync(path.join(tmpdir(), 'unpack-'));
  });
  afterEach(() => rmSync(root, { recursive: true }));

  it('keeps content, modes, links and empty directories, whatever the umask, and drops set-id bits', async () => {
    const umask = process.umask(0o077);
    try {
      await unpack(
        [{ name: './', type: 'directory', mode: 0o700 }],
        [{ name: 'a/b/file', mode: 0o644 }, 'content'],
        [{ name: 'a/empty', type: 'directory', mode: 0o750 }],
        [{ name: 'suid', mode: 0o6755 }, 'x'],
        [{ name: 'soft', type: 'symlink', linkname: '../outside' }],
        [{ name: 'hard', type: 'link', linkname: 'a/b/file' }],
      );
    } finally {
      process.umask(umask);
    }

    expect(readFileSync(path.join(root, 'hard'), 'utf8')).toBe('content');
    expect(['a', 'a/b/file', 'a/empty', 'suid'].map(modeOf)).toEqual(['755', '644', '750', '755']);
    expect(lstatSync(path.join(root, 'soft')).isSymbolicLink()).toBe(true);
  });

  it('replaces a file or link of the tree and never writes through one', async () => {
    const outside = path.join(root, 'outside');
    writeFileSync(outside, 'as it was');
    symlinkSync(outside, path.join(root, 'link'));

    await unpack([{ name: 'link' }, 'new']);

    expect(readFileSync(outside, 'utf8')).toBe('as it was');
    expect(readFileSync(path.join(root, 'link'), 'utf8')).toBe('new');
  });

  it.each([
    ['leaves its place by ..', [[{ name: 'a/../../b' }, 'x']]],
    ['has an absolute name', [[{ name: '/etc/passwd' }, 'x']]],
    [
      'goes through way, a link or file',
      [[{ name: 'way', type: 'symlink', linkname: '/etc' }], [{ name: 'way/passwd' }, 'x']],
    ],
    ['is a hard link to etc/passwd', [[{ name: 'in', type: 'link', linkname: 'etc/passwd' }]]],
    ['is a fifo', [[{ name: 'pipe', type: 'fifo' }]]],
    ['has no name', [[{ name: './', type: 'symlink', linkname: 'x' }]]],
    ['EEXIST', [[{ name: 'd/', type: 'directory' }], [{ name: 'd' }, 'x']]],
  ] as [string, Parameters<typeof tarOf>[0]][])(
    'refuses an entry that %s',
    async (why, entries) => {
      await expect(unpack(...entries)).rejects.toMatchObject({
        code: 'invalid_request',
        message: expect.stringContaining(why),
      });
    },
  );

  it.each([
    ['cut short', async () => (await tarOf([[{ name: 'a' }, 'x'.repeat(2000)]])).subarray(0, 1024)],
    ['no archive', async () => Buffer.alloc(1024, 'not a tar archive ')],
  ])('refuses an archive that is %s', async (_title, tar) => {
    const unpacked = unpackFiles(root, archiveOf('/', await tar()));

    await expect(unpacked).rejects.toMatchObject({ code: 'invalid_request' });
  });
});
