import type { DatabaseSync } from 'node:sqlite';
import { z } from 'zod';
import { RecordEntry } from '../../contracts/denv';
import { openJournalFile } from './journal-file';
import { OperationRow, SandboxRow, VersionRow } from './rows';

/**
 * The one durable state of the server: operations, sandboxes, versions and records in one SQLite file, each commit on disk
 * before it returns. Its exclusive lock is also what keeps a second server off the data directory: the kernel drops it with
 * the process, however that ends.
 */
export class Journal {
  private readonly db: DatabaseSync;

  /** @throws DenvError unavailable when another server holds the file, or a newer release has written it */
  constructor(private readonly path: string) {
    this.db = openJournalFile(path);
    this.setMeta('pid', String(process.pid));
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
    return row ? this.parseOperation(row) : null;
  }

  runningOperations(): OperationRow[] {
    const running = `select * from operations where state = 'running' order by created_at`;
    return this.all(running, []).map((row) => this.parseOperation(row));
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
    return this.all(`select row from sandboxes where state <> 'deleted'`, []).map(({ row }) =>
      this.parse(SandboxRow, 'sandboxes', parseJson(row)),
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
    const found = this.all('select row from versions where id = ?', [id])[0];
    return found ? this.parse(VersionRow, 'versions', parseJson(found['row'])) : null;
  }

  versions(): VersionRow[] {
    return this.all('select row from versions', []).map(({ row }) =>
      this.parse(VersionRow, 'versions', parseJson(row)),
    );
  }

  removeVersion(id: string): void {
    this.run('delete from versions where id = ?', [id]);
  }

  record(sandbox: string, event: RecordEntry['event'], data: Record<string, unknown>): void {
    this.run('insert into records (sandbox, at, event, data) values (?, ?, ?, ?)', [
      sandbox,
      Date.now(),
      event,
      JSON.stringify(data),
    ]);
  }

  records(sandbox: string): RecordEntry[] {
    return this.all('select * from records where sandbox = ? order by seq', [sandbox]).map((row) =>
      this.parse(RecordEntry, 'records', {
        ...row,
        at: new Date(Number(row['at'])).toISOString(),
        data: parseJson(row['data']),
      }),
    );
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

  private parseOperation(row: Record<string, unknown>): OperationRow {
    return this.parse(OperationRow, 'operations', {
      ...row,
      request: parseJson(row['request']),
      phase: parseJson(row['phase']),
      body: parseJson(row['body']),
    });
  }

  private parse<S extends z.ZodType>(schema: S, table: string, row: unknown): z.output<S> {
    const parsed = schema.safeParse(row);
    if (parsed.success) return parsed.data;
    throw new Error(
      `${this.path}: a row of ${table} is not as this server writes them: ${z.prettifyError(parsed.error)}`,
    );
  }
}

function parseJson(text: unknown): unknown {
  return typeof text === 'string' ? JSON.parse(text) : null;
}
