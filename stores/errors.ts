/** A store cannot be read or written now, and may be again: its disk is full or fails, too many files are open, it is locked. */
export class StoreError extends Error {
  override readonly name = 'StoreError';

  constructor(
    /** As the system or SQLite names it: `ENOSPC`, `SQLITE_BUSY`. */
    readonly code: string,
    message: string,
    cause: unknown,
  ) {
    super(message, { cause });
  }
}

/** Errors of the file system that end without a change of this code. */
const passingSystemErrors = new Set([
  'EACCES',
  'EAGAIN',
  'EBUSY',
  'EDQUOT',
  'EIO',
  'EMFILE',
  'ENFILE',
  'ENODEV',
  'ENOMEM',
  'ENOSPC',
  'EPERM',
  'EROFS',
  'ESTALE',
  'ETIMEDOUT',
]);

/** The same of SQLite, by the low byte of its result code. */
const passingSqliteErrors: Record<number, string> = {
  5: 'SQLITE_BUSY',
  6: 'SQLITE_LOCKED',
  7: 'SQLITE_NOMEM',
  8: 'SQLITE_READONLY',
  10: 'SQLITE_IOERR',
  13: 'SQLITE_FULL',
  14: 'SQLITE_CANTOPEN',
  15: 'SQLITE_PROTOCOL',
};

/**
 * An error of the file system or of SQLite as the StoreError that it is; any other error as it stands, a fault in this code
 * among them.
 * @param store  which one, for the message
 */
export function toStoreError(error: unknown, store: string): unknown {
  const code = passingCode(error);
  if (code === null) return error;
  const { message } = error as Error; // what has a code of the system or of SQLite is an Error, if perhaps of another realm
  return new StoreError(code, `${store} cannot be used now: ${message}`, error);
}

function passingCode(error: unknown): string | null {
  if (typeof error !== 'object' || error === null || !('code' in error)) return null;
  if (error.code === 'ERR_SQLITE_ERROR' && 'errcode' in error) {
    return passingSqliteErrors[Number(error.errcode) & 0xff] ?? null;
  }
  return typeof error.code === 'string' && passingSystemErrors.has(error.code) ? error.code : null;
}
