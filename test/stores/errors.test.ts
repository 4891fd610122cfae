import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDirectoryBlobs } from '../../stores/directory-blobs';
import { StoreError, toStoreError } from '../../stores/errors';
import { Connection } from '../../stores/sqlite/connection';
import { openLedger } from '../../stores/sqlite/ledger';

const systemError = (code: string) => Object.assign(new Error(`${code}: x`), { code });
const sqliteError = (errcode: number) =>
  Object.assign(new Error('x'), { code: 'ERR_SQLITE_ERROR', errcode });

describe('toStoreError', () => {
  test.each([
    [systemError('ENOSPC'), 'ENOSPC'],
    [systemError('EIO'), 'EIO'],
    [systemError('EMFILE'), 'EMFILE'],
    [sqliteError(5), 'SQLITE_BUSY'],
    [sqliteError(13), 'SQLITE_FULL'],
    // SQLITE_IOERR_FSYNC: the low byte is the kind.
    [sqliteError(10 | (4 << 8)), 'SQLITE_IOERR'],
  ])('is a StoreError for what may pass: %p', (error, code) => {
    const found = toStoreError(error, 'the store');

    expect(found).toBeInstanceOf(StoreError);
    expect(found).toMatchObject({
      code,
      message: `the store cannot be used now: ${error.message}`,
      cause: error,
    });
  });

  test.each([
    [systemError('ERR_INVALID_ARG_TYPE')],
    [systemError('ENOENT')],
    [sqliteError(1)],
    [sqliteError(19)],
    [new TypeError('x')],
    ['a string'],
  ])('leaves a fault as it is: %p', (error) => {
    expect(toStoreError(error, 'the store')).toBe(error);
  });
});

describe('a store that is away', () => {
  let dir: string;
  beforeEach(() => {
    dir = mkdtempSync(join(tmpdir(), 'away-'));
  });
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  it('is a StoreError of the ledger whose disk is full, and nothing of the transaction is there', () => {
    const path = join(dir, 'ledger.db');
    const db = new Connection(path);
    const row = { batch_id: 'b', declared: 1, rollouts_ref: 'r', created_at: 'now' };
    try {
      // The file may not grow past what it is.
      db.one('PRAGMA max_page_count = 1');
      const write = () =>
        db.transaction(() => db.insert('batches', { ...row, taskset: 'x'.repeat(1 << 20) }));

      expect(write).toThrow(
        expect.objectContaining({
          name: 'StoreError',
          code: 'SQLITE_FULL',
          message: `the ledger ${path} cannot be used now: database or disk is full`,
        }),
      );
      expect(db.all('SELECT * FROM batches')).toEqual([]);
      db.transaction(() => db.insert('batches', { ...row, taskset: 'small' }));
      expect(db.all('SELECT taskset FROM batches')).toEqual([{ taskset: 'small' }]);
    } finally {
      db.close();
    }
  });

  it('is a StoreError of the ledger that cannot be opened', async () => {
    mkdirSync(join(dir, 'ledger.db'));

    await expect(openLedger(join(dir, 'ledger.db'))).rejects.toMatchObject({
      name: 'StoreError',
      code: 'SQLITE_CANTOPEN',
    });
  });

  // A process's own memory cannot be read at 0: the read fails as on a broken disk.
  (process.platform === 'linux' ? it : it.skip)(
    'is a StoreError of the blobs whose disk fails (needs /proc)',
    async () => {
      const blobs = createDirectoryBlobs(dir);
      const { ref } = await blobs.put(Buffer.from('hello'));
      const hex = ref.slice('sha256:'.length);
      const path = join(dir, 'content', hex.slice(0, 2), hex);
      rmSync(path);
      symlinkSync('/proc/self/mem', path);

      await expect(blobs.get(ref)).rejects.toMatchObject({
        name: 'StoreError',
        code: 'EIO',
        message: `the blob directory ${dir} cannot be used now: EIO: i/o error, read`,
      });
    },
  );
});
