import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { makeDirIn, resolveInRoot } from '../../../../denv/drivers/linux/rooted-paths';

describe('paths inside a tree', () => {
  let root: string;
  beforeEach(() => {
    root = mkdtempSync(path.join(tmpdir(), 'rooted-'));
    mkdirSync(path.join(root, 'usr/bin'), { recursive: true });
    symlinkSync('usr/bin', path.join(root, 'bin'));
    symlinkSync('/etc', path.join(root, 'absolute'));
    symlinkSync('../../../../../..', path.join(root, 'usr/up'));
    symlinkSync('loop', path.join(root, 'loop'));
  });
  afterEach(() => rmSync(root, { recursive: true }));

  it.each([
    ['/bin/sh', 'usr/bin/sh'],
    ['/absolute/passwd', 'etc/passwd'],
    ['/usr/up/etc', 'etc'],
    ['/../../etc', 'etc'],
    ['/not/there/../yet', 'not/yet'],
    ['/', ''],
  ])('%s is %s of the tree', (inside, expected) => {
    expect(resolveInRoot(root, inside)).toBe(path.join(root, expected));
  });

  it('ends at a link that leads to itself', () => {
    expect(() => resolveInRoot(root, '/loop')).toThrow('/loop: too many links');
  });

  it('makes directories where a process in the tree would see them', () => {
    expect(makeDirIn(root, '/bin', { mode: 0o700, owner: 0 })).toBe(path.join(root, 'usr/bin'));
  });
});
