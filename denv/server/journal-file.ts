import { DatabaseSync } from 'node:sqlite';
import { DenvError } from '../errors';

/** Counts the changes of what is below; a journal says by which one it was written. */
const VERSION = 1;

const TABLES = `
create table if not exists operations (
  key text primary key, kind text not null, sandbox text not null, digest text not null, request text not null,
  phase text not null, state text not null, status integer not null, body text, created_at integer not null,
  done_at integer) without rowid;
create index if not exists operations_running on operations(state) where state = 'running';
create index if not exists operations_sandbox on operations(sandbox);
create table if not exists sandboxes (id text primary key, state text not null, row text not null, deleted_at integer)
  without rowid;
create table if not exists tombstones (id text primary key, at integer not null) without rowid;
create table if not exists versions (id text primary key, retain_until integer not null, row text not null) without rowid;
create table if not exists records (
  seq integer primary key autoincrement, sandbox text not null, at integer not null, event text not null,
  data text not null);
create index if not exists records_sandbox on records(sandbox);
create table if not exists meta (name text primary key, value text not null) without rowid;
`;

/**
 * Opens the journal's file, which stays locked for this process alone.
 * @throws DenvError unavailable when another server holds it, or when a newer release has written it
 */
export function openJournalFile(path: string): DatabaseSync {
  const db = new DatabaseSync(path);
  try {
    db.exec('pragma locking_mode = exclusive');
    db.exec('pragma journal_mode = wal');
    db.exec('pragma synchronous = full');
    refuseNewer(db, path);
    // A file of version 0 is new, or of a release that did not count: the tables are the same.
    db.exec(`${TABLES} pragma user_version = ${VERSION};`);
    return db;
  } catch (error) {
    db.close();
    if (!/locked|busy/.test(String(error))) throw error;
    throw new DenvError('unavailable', `another denv server holds ${path}; stop it first`);
  }
}

function refuseNewer(db: DatabaseSync, path: string): void {
  const found = Number(db.prepare('pragma user_version').get()?.['user_version']);
  if (found <= VERSION) return;
  throw new DenvError(
    'unavailable',
    `${path} was written by a newer denv server (version ${found}; this one reads up to ${VERSION}): start that release, or choose another folder with --data`,
  );
}
