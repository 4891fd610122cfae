import fs, { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { errnoOf } from '../../machine/errno';
import { isThere, listDirectories, readIfThere } from '../../machine/files';
import { layoutOf } from '../../denv/drivers/host/layout';
import { identify, isAlive, readArguments } from '../../denv/drivers/host/processes';
import { createCgroups } from '../../denv/drivers/linux/cgroups';
import { findExecFiles, makeExecFiles, readProgress } from '../../denv/drivers/linux/exec/files';
import { findEnd } from '../../denv/drivers/linux/exec/end';
import { createRecords } from '../../denv/drivers/linux/records';

let dir: string;
beforeEach(() => (dir = mkdtempSync(path.join(tmpdir(), 'denv-files-'))));
afterEach(() => {
  jest.restoreAllMocks();
  rmSync(dir, { recursive: true });
});

const failure = (code: string) => Object.assign(new Error(`${code}: faked`), { code });

/** Makes every reading of such a file fail, as it does with no descriptor left or on a disk that fails. */
function failReading(code: string, file: RegExp): void {
  const { readFileSync } = fs;
  jest.spyOn(fs, 'readFileSync').mockImplementation((...args) => {
    if (file.test(String(args[0]))) throw failure(code);
    return readFileSync(...args);
  });
}

const unknowable = ['EMFILE', 'ENFILE', 'EIO', 'EACCES'];
const absence = ['ENOENT', 'ENOTDIR', 'ESRCH', 'ENODEV'];

// These read /proc, which only Linux has.
const onLinux = process.platform === 'linux' ? describe : describe.skip;

onLinux('what reads the host', () => {
  it.each(absence)('takes %s for absence', (code) => {
    failReading(code, /^\/(x|proc)/);

    expect(readIfThere('/x')).toBeNull();
    expect(readArguments(7)).toEqual([]);
  });

  it.each(unknowable)('passes %s on', (code) => {
    const self = identify(process.pid);
    if (!self) throw new Error('this process has no start time');
    failReading(code, /^\/(x|proc)/);

    expect(() => readIfThere('/x')).toThrow(code);
    expect(() => readArguments(7)).toThrow(code);
    expect(() => identify(7)).toThrow(code);
    expect(() => isAlive(self)).toThrow(code);
  });

  it.each(unknowable)('lists no directory as empty after %s', (code) => {
    jest.spyOn(fs, 'readdirSync').mockImplementation(() => {
      throw failure(code);
    });

    expect(() => listDirectories(dir)).toThrow(code);
  });

  it('tells what is there from what is not', () => {
    expect([
      isThere(dir),
      isThere(path.join(dir, 'x')),
      listDirectories(path.join(dir, 'x')),
    ]).toEqual([true, false, []]);
    expect(() => isThere(path.join(dir, 'x'.repeat(300)))).toThrow('ENAMETOOLONG');
  });
});

onLinux('a sandbox whose first process lives', () => {
  it.each(unknowable)('is not called stopped after %s', (code) => {
    const records = createRecords({ ...layoutOf(dir), records: dir });
    records.make('sb');
    records.write('sb', { image: { kind: 'host' }, init: identify(process.pid), ports: {} });
    expect(records.running('sb')).not.toBeNull();

    failReading(code, /^\/proc\/\d+\/stat$|record\.json$/);

    expect(() => records.running('sb')).toThrow(code);
  });
});

onLinux('an exec whose holder lives', () => {
  it.each(unknowable)('is not called lost after %s', (code) => {
    const records = createRecords({ ...layoutOf(dir), records: dir });
    records.make('sb');
    const execDir = records.execDirOf('sb', 'ex');
    makeExecFiles({ dir: execDir, sandboxId: 'sb', finiteInput: false }, {}, null);
    writeFileSync(path.join(execDir, 'holder.pid'), String(process.pid));
    const files = findExecFiles(execDir, 'sb');
    if (!files) throw new Error('no exec files');

    failReading(code, /^\/proc\/\d+\/cmdline$/);

    expect(() => readProgress(files)).toThrow(code);
    expect(() => findEnd(files, records)).toThrow(code);
  });
});

describe('a cgroup with processes in it', () => {
  it.each(unknowable)('is not called empty after %s', (code) => {
    const mountinfo = `29 23 0:26 / ${dir} rw - cgroup2 cgroup2 rw\n`;
    const { readFileSync } = fs;
    jest.spyOn(fs, 'readFileSync').mockImplementation((...args) => {
      if (args[0] === '/proc/self/mountinfo') return mountinfo;
      if (String(args[0]).endsWith('cgroup.events')) throw failure(code);
      return readFileSync(...args);
    });
    const cgroups = createCgroups();

    expect(() => cgroups.isPopulated('denv/x')).toThrow(code);
  });

  it('is called empty when it is gone', () => {
    const mountinfo = `29 23 0:26 / ${dir} rw - cgroup2 cgroup2 rw\n`;
    const { readFileSync } = fs;
    jest
      .spyOn(fs, 'readFileSync')
      .mockImplementation((...args) =>
        args[0] === '/proc/self/mountinfo' ? mountinfo : readFileSync(...args),
      );

    expect(createCgroups().isPopulated('denv/x')).toBe(false);
  });
});

describe('errnoOf', () => {
  it.each<[unknown, string | null]>([
    [failure('EMFILE'), 'EMFILE'],
    [failure('ERR_INVALID_ARG_TYPE'), null],
    [failure('unavailable'), null],
    [new Error('ENOENT'), null],
    ['ENOENT', null],
    [null, null],
  ])('of %p is %p', (error, code) => {
    expect(errnoOf(error)).toBe(code);
  });
});
