import { DatabaseSync } from 'node:sqlite';
import { DenvError } from '../errors';
import type { OperationRow, SandboxRow, VersionRow } from './rows';

const SCHEMA = `
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
 * The one durable state of the server: operations, sandboxes, versions and records in one SQLite file, each commit on disk
 * before it returns. Its exclusive lock is also what keeps a second server off the data directory: the kernel drops it with
 * the process, however that ends.
 */
export class Journal {
  private readonly db: DatabaseSync;

  /** @throws DenvError unavailable when another server holds the data directory */
  constructor(path: string) {
    this.db = new DatabaseSync(path);
    try {
      this.db.exec('pragma locking_mode = exclusive');
      this.db.exec('pragma journal_mode = wal');
      this.db.exec('pragma synchronous = full');
      this.db.exec(SCHEMA);
      this.setMeta('pid', String(process.pid));
    } catch (error) {
      this.db.close();
      if (/locked|busy/.test(String(error))) {
        throw new DenvError('unavailable', `another denv server holds ${path}; stop it first`);
      }
      throw error;
    }
  }

  close(): void {
    this.db.close();
  }

  /** Several writes as one commit. */
  transaction<T>(work: () => T): T {
    this.db.exec('begin immediate');
    try {
      const result = work();
      this.db.exec('commit');
      return result;
    } catch (error) {
      this.db.exec('rollback');
      throw error;
    }
  }

  /** A write that must survive the server's death but not the host's: after a reboot every sandbox is stopped anyway. */
  relaxed(work: () => void): void {
    this.db.exec('pragma synchronous = normal');
    try {
      work();
    } finally {
      this.db.exec('pragma synchronous = full');
    }
  }

  private setMeta(name: string, value: string): void {
    this.run(
      'insert into meta values (?, ?) on conflict (name) do update set value = excluded.value',
      [name, value],
    );
  }

  beginOperation(op: Pick<OperationRow, 'key' | 'kind' | 'sandbox' | 'digest' | 'request'>): void {
    this.run(`insert into operations values (?, ?, ?, ?, ?, '{}', 'running', 0, null, ?, null)`, [
      op.key,
      op.kind,
      op.sandbox,
      op.digest,
      JSON.stringify(op.request),
      Date.now(),
    ]);
  }

  setPhase(key: string, phase: Record<string, unknown>): void {
    this.run('update operations set phase = ? where key = ?', [JSON.stringify(phase), key]);
  }

  finishOperation(key: string, status: number, body: unknown): void {
    this.run(
      `update operations set state = 'done', status = ?, body = ?, request = 'null', done_at = ? where key = ?`,
      [status, JSON.stringify(body), Date.now(), key],
    );
  }

  /** For an operation that was rolled back whole: the same key may begin again. */
  forgetOperation(key: string): void {
    this.run('delete from operations where key = ?', [key]);
  }

  operation(key: string): OperationRow | null {
    const row = this.all('select * from operations where key = ?', [key])[0];
    return row ? toOperation(row) : null;
  }

  runningOperations(): OperationRow[] {
    return this.all(`select * from operations where state = 'running' order by created_at`, []).map(
      toOperation,
    );
  }

  putSandbox(row: SandboxRow): void {
    this.run(
      `insert into sandboxes values (?, ?, ?, ?)
       on conflict (id) do update set state = excluded.state, row = excluded.row, deleted_at = excluded.deleted_at`,
      [row.id, row.state, JSON.stringify(row), row.deletedAt],
    );
  }

  removeSandbox(id: string): void {
    this.run('delete from sandboxes where id = ?', [id]);
  }

  sandboxes(): SandboxRow[] {
    return this.all(`select row from sandboxes where state <> 'deleted'`, []).map(
      (r) => JSON.parse(String(r['row'])) as SandboxRow, // written by putSandbox
    );
  }

  deletedSandbox(id: string): boolean {
    return this.all(`select 1 from sandboxes where id = ? and state = 'deleted'`, [id]).length > 0;
  }

  putTombstone(id: string): void {
    this.run('insert or ignore into tombstones values (?, ?)', [id, Date.now()]);
  }

  hasTombstone(id: string): boolean {
    return this.all('select 1 from tombstones where id = ?', [id]).length > 0;
  }

  putVersion(row: VersionRow): void {
    this.run('insert or replace into versions values (?, ?, ?)', [
      row.id,
      row.retainUntil,
      JSON.stringify(row),
    ]);
  }

  version(id: string): VersionRow | null {
    const row = this.all('select row from versions where id = ?', [id])[0];
    return row ? (JSON.parse(String(row['row'])) as VersionRow) : null; // written by putVersion
  }

  versions(): VersionRow[] {
    return this.all('select row from versions', []).map(
      (r) => JSON.parse(String(r['row'])) as VersionRow, // written by putVersion
    );
  }

  removeVersion(id: string): void {
    this.run('delete from versions where id = ?', [id]);
  }

  record(sandbox: string, event: string, data: Record<string, unknown>): void {
    this.run('insert into records (sandbox, at, event, data) values (?, ?, ?, ?)', [
      sandbox,
      Date.now(),
      event,
      JSON.stringify(data),
    ]);
  }

  records(sandbox: string): { seq: number; at: string; event: string; data: unknown }[] {
    return this.all('select * from records where sandbox = ? order by seq', [sandbox]).map((r) => ({
      seq: Number(r['seq']),
      at: new Date(Number(r['at'])).toISOString(),
      event: String(r['event']),
      data: JSON.parse(String(r['data'])) as unknown,
    }));
  }

  /** Drops outcomes and rows of sandboxes deleted before `before`. Records stay. */
  sweep(before: number): void {
    this.transaction(() => {
      this.run(
        `delete from operations where state = 'done' and sandbox in
           (select id from sandboxes where state = 'deleted' and deleted_at < ?)`,
        [before],
      );
      this.run(`delete from sandboxes where state = 'deleted' and deleted_at < ?`, [before]);
      this.run('delete from tombstones where at < ?', [before]);
    });
  }

  private run(sql: string, values: (string | number | null)[]): void {
    this.db.prepare(sql).run(...values);
  }

  private all(sql: string, values: (string | number)[]): Record<string, unknown>[] {
    return this.db.prepare(sql).all(...values);
  }
}

function toOperation(row: Record<string, unknown>): OperationRow {
  return {
    key: String(row['key']),
    kind: String(row['kind']),
    sandbox: String(row['sandbox']),
    digest: String(row['digest']),
    request: JSON.parse(String(row['request'])) as unknown,
    phase: JSON.parse(String(row['phase'])) as Record<string, unknown>, // written by setPhase
    state: row['state'] === 'done' ? 'done' : 'running',
    status: Number(row['status']),
    body: typeof row['body'] === 'string' ? (JSON.parse(row['body']) as unknown) : null,
  };
}
