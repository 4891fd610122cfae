import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { collect, defaultCollectLimits } from '../../../denv/server/collect';
import { readVerdict } from '../../../denv/server/verdict';

let folder: string;
let root: string;
let out: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'denv-collect-'));
  root = join(folder, 'root');
  out = join(folder, 'out');
  mkdirSync(join(root, 'work/deep'), { recursive: true });
  writeFileSync(join(root, 'work/a.txt'), 'alpha');
  writeFileSync(join(root, 'work/deep/b.txt'), 'beta');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const entry = (path: string, exclude: string[] = []) => ({ path, exclude });

describe('collect', () => {
  it('copies files and folders with their digests', async () => {
    const result = await collect(root, out, [entry('/work')]);

    expect(result.refused).toBeNull();
    expect(result.files.map((f) => [f.path, f.bytes])).toEqual([
      ['/work/a.txt', 5],
      ['/work/deep/b.txt', 4],
    ]);
    expect(readFileSync(join(out, 'work/deep/b.txt'), 'utf8')).toBe('beta');
    expect(statSync(join(out, 'work/a.txt')).mode & 0o777).toBe(0o644);
  });

  it('lists a missing path and refuses nothing for it', async () => {
    const result = await collect(root, out, [entry('/work/none'), entry('/work/a.txt')]);

    expect(result).toMatchObject({ missing: ['/work/none'], refused: null });
    expect(result.files).toHaveLength(1);
  });

  it('leaves out what an entry excludes', async () => {
    writeFileSync(join(root, 'work/deep/c.pyc'), 'x');
    const result = await collect(root, out, [entry('/work', ['*.pyc', 'deep/b.txt'])]);

    expect(result.files.map((f) => f.path)).toEqual(['/work/a.txt']);
  });

  const bad: [string, () => void, string, string][] = [
    [
      'a symbolic link',
      () => symlinkSync('/etc/passwd', join(root, 'work/l')),
      '/work/l',
      'a symbolic link',
    ],
    ['a linked parent', () => symlinkSync('work', join(root, 'w')), '/w/a.txt', 'a symbolic link'],
    [
      'a hard link',
      () => linkSync(join(root, 'work/a.txt'), join(root, 'work/h')),
      '/work/h',
      'a hard link (2 names)',
    ],
    ['a fifo', () => spawnSync('mkfifo', [join(root, 'work/f')]), '/work/f', 'a fifo'],
    [
      'a setuid file',
      () => chmodSync(join(root, 'work/a.txt'), 0o4755),
      '/work/a.txt',
      'setuid or setgid',
    ],
    ['a step up', () => undefined, '/work/../work/a.txt', 'bad name ..'],
    [
      'a link inside a folder',
      () => symlinkSync('a.txt', join(root, 'work/deep/l')),
      '/work',
      'a symbolic link',
    ],
  ];
  it.each(bad)('refuses %s', async (_, make, path, why) => {
    make();

    const result = await collect(root, out, [entry(path)]);

    expect(result.refused?.why).toBe(why);
  });

  it('refuses a socket', async () => {
    const server = createServer().listen(join(root, 'work/s'));
    await new Promise((resolve) => server.once('listening', resolve));

    const result = await collect(root, out, [entry('/work/s')]);
    server.close();

    expect(result.refused).toEqual({ path: '/work/s', why: 'a socket' });
  });

  it('refuses what is over the size limit by its bytes, sparse or not', async () => {
    truncateSync(join(root, 'work/a.txt'), 4096);

    const result = await collect(root, out, [entry('/work/a.txt')], {
      ...defaultCollectLimits,
      maxBytes: 1000,
    });

    expect(result.refused?.why).toBe('the submission is larger than 1000 bytes');
  });
});

describe('readVerdict', () => {
  const verdicts: [string, Record<string, string>, unknown][] = [
    [
      'json with named rewards',
      { 'reward.json': '{"reward":0.5,"speed":1}' },
      { reward: 0.5, rewards: { speed: 1 } },
    ],
    ['text', { 'reward.txt': '1\n' }, { reward: 1, rewards: {} }],
    [
      'json before text',
      { 'reward.json': '{"reward":0}', 'reward.txt': '1' },
      { reward: 0, rewards: {} },
    ],
    [
      'nothing',
      {},
      { none: 'the verifier wrote neither /verdict/reward.json nor /verdict/reward.txt' },
    ],
    ['NaN', { 'reward.json': '{"reward":NaN}' }, { none: '/verdict/reward.json: not JSON' }],
    [
      'a string',
      { 'reward.json': '{"reward":"1"}' },
      { none: '/verdict/reward.json: `reward` is not a finite number' },
    ],
    [
      'a bad named reward',
      { 'reward.json': '{"reward":1,"x":null}' },
      { none: '/verdict/reward.json: `x` is not a finite number' },
    ],
    ['a list', { 'reward.json': '[1]' }, { none: '/verdict/reward.json: not an object' }],
    [
      'no reward',
      { 'reward.json': '{"speed":1}' },
      { none: '/verdict/reward.json: `reward` is missing' },
    ],
    [
      'an overflow',
      { 'reward.json': '{"reward":1e999}' },
      { none: '/verdict/reward.json: `reward` is not a finite number' },
    ],
    ['empty text', { 'reward.txt': ' ' }, { none: '/verdict/reward.txt: not a finite number' }],
    ['words', { 'reward.txt': 'one' }, { none: '/verdict/reward.txt: not a finite number' }],
  ];
  it.each(verdicts)('reads %s', async (_, files, expected) => {
    for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);

    expect(await readVerdict(folder)).toEqual(expected);
  });

  it('does not follow a link', async () => {
    writeFileSync(join(root, 'work/reward.json'), '{"reward":1}');
    symlinkSync(join(root, 'work/reward.json'), join(folder, 'reward.json'));

    expect(await readVerdict(folder)).toEqual({ none: '/verdict/reward.json: a symbolic link' });
  });

  it('does not read more than its limit', async () => {
    writeFileSync(join(folder, 'reward.txt'), '1'.repeat(1024 * 1024 + 1));

    expect(await readVerdict(folder)).toEqual({
      none: '/verdict/reward.txt: larger than 1048576 bytes',
    });
  });
});
