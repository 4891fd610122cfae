import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { BlobNotFoundError } from '../../stores/blobs';
import { createDirectoryBlobs } from '../../stores/directory-blobs';
import { bundled, runInProcess } from './other-process';

describe('blobs in a directory', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'blobs-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  it('gives back what was put, under its digest', async () => {
    const blobs = createDirectoryBlobs(dir);

    const first = await blobs.put(Buffer.from('hello'));
    const again = await blobs.put(Buffer.from('hello'));

    expect(first).toEqual({
      ref: 'sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824',
      bytes: 5,
    });
    expect(again).toEqual(first);
    expect((await blobs.get(first.ref)).toString()).toBe('hello');
    expect(await readdir(join(dir, 'tmp'))).toEqual([]);
  });

  it('stores and gives back in pieces what is too large to hold, under the same digest', async () => {
    const blobs = createDirectoryBlobs(dir);

    const stored = await blobs.putStream(Readable.from([Buffer.from('hel'), Buffer.from('lo')]));

    expect(stored).toEqual(await blobs.put(Buffer.from('hello')));
    expect(await text(await blobs.stream(stored.ref))).toBe('hello');
    expect(await readdir(join(dir, 'tmp'))).toEqual([]);
  });

  it('stores nothing of a source that fails', async () => {
    const blobs = createDirectoryBlobs(dir);
    const source = Readable.from(
      (function* () {
        yield Buffer.from('half');
        throw new Error('torn');
      })(),
    );

    await expect(blobs.putStream(source)).rejects.toThrow('torn');
    expect(await readdir(dir, { recursive: true })).toEqual(['named', 'tmp']);
  });

  it.each([`sha256:${'0'.repeat(64)}`, 'sha256:../../etc/passwd', ''])(
    'knows no blob %p',
    async (ref) => {
      await expect(createDirectoryBlobs(dir).get(ref)).rejects.toThrow(BlobNotFoundError);
      await expect(createDirectoryBlobs(dir).stream(ref)).rejects.toThrow(BlobNotFoundError);
    },
  );

  it('never overwrites a named entry', async () => {
    const blobs = createDirectoryBlobs(dir);

    const first = await blobs.putIfAbsent('replies/a', Buffer.from('one'));
    const second = await blobs.putIfAbsent('replies/a', Buffer.from('two'));

    expect(first).toEqual({ data: Buffer.from('one'), won: true });
    expect(second).toEqual({ data: Buffer.from('one'), won: false });
    expect(await blobs.find('replies/a')).toEqual(Buffer.from('one'));
    expect(await blobs.find('replies/b')).toBeNull();
  });

  it('holds names of any kind and lists them by prefix', async () => {
    const blobs = createDirectoryBlobs(dir);
    const names = [
      'in/a',
      'in/a/b',
      'in/a/..',
      'in/.x',
      'in/e 1.2',
      'in/@=',
      'in/\u00e4',
      'other/a',
    ];

    for (const name of names) await blobs.putIfAbsent(name, Buffer.from(name));

    expect(await blobs.list('in/')).toEqual(names.filter((n) => n.startsWith('in/')).sort());
    expect(await blobs.list('in/a/')).toEqual(['in/a/..', 'in/a/b']);
    expect(await blobs.list('none/')).toEqual([]);
    for (const name of names) expect((await blobs.find(name))?.toString()).toBe(name);
  });

  it('lets exactly one of several processes win a name, and shows all of them its bytes', async () => {
    const race = `
      const { createDirectoryBlobs } = require('./stores/directory-blobs');
      const blobs = createDirectoryBlobs(process.argv[1]);
      (async () => {
        const out = [];
        for (let i = 0; i < 50; i++) {
          const kept = await blobs.putIfAbsent('race/' + i, Buffer.from(process.pid + ' ' + 'x'.repeat(5000)));
          out.push([kept.won, kept.data.toString().split(' ')[0], kept.data.length]);
        }
        console.log(JSON.stringify(out));
      })();`;

    const runs = await Promise.all([0, 1, 2].map(() => runInProcess(race, [dir])));

    const results = runs.map((run) => JSON.parse(run) as [boolean, string, number][]);
    for (let i = 0; i < 50; i++) {
      const tries = results.map((result) => result[i]!);
      expect(tries.filter(([won]) => won)).toHaveLength(1);
      expect(new Set(tries.map(([, pid]) => pid)).size).toBe(1);
    }
  });

  it('has whole blobs only when a writer is killed in the middle', async () => {
    const script = `
      const { createDirectoryBlobs } = require('./stores/directory-blobs');
      const blobs = createDirectoryBlobs(process.argv[1]);
      (async () => {
        for (let i = 0; ; i++) {
          await blobs.putIfAbsent('big/' + i, Buffer.alloc(4 * 1024 * 1024, i % 251));
          process.stdout.write('.');
        }
      })();`;
    const child = spawn(process.execPath, ['-e', await bundled(script), dir]);
    await once(child.stdout, 'data');

    child.kill('SIGKILL');
    await once(child, 'exit');

    const blobs = createDirectoryBlobs(dir);
    const names = await blobs.list('big/');
    expect(names.length).toBeGreaterThan(0);
    for (const name of names) expect((await blobs.find(name))?.length).toBe(4 * 1024 * 1024);
  });

  it('clears away what killed writers left, and only that', async () => {
    createDirectoryBlobs(dir);
    await writeFile(join(dir, 'tmp', 'old'), 'half');
    await utimes(join(dir, 'tmp', 'old'), 0, 0);
    await writeFile(join(dir, 'tmp', 'young'), 'half');

    createDirectoryBlobs(dir);

    expect(await readdir(join(dir, 'tmp'))).toEqual(['young']);
  });
});
