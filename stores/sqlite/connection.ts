import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { SQLInputValue } from 'node:sqlite';
import { toStoreError } from '../errors';
import { migrate } from './migrations';
import type { Row } from './rows';

/**
 * An open SQLite file with the ledger's tables. Any number of processes may have it open; a writer waits up to ten seconds
 * for another.
 * @throws StoreError, by every method, when the file cannot be read or written now
 */
export class Connection {
  readonly #path: string;
  readonly #db: DatabaseSync;

  constructor(path: string) {
    this.#path = path;
    this.#db = this.#attempt(() => open(path));
  }

  all(sql: string, ...values: SQLInputValue[]): Row[] {
    return this.#attempt(() => this.#db.prepare(sql).all(...values));
  }

  one(sql: string, ...values: SQLInputValue[]): Row | undefined {
    return this.#attempt(() => this.#db.prepare(sql).get(...values));
  }

  run(sql: string, values: Record<string, SQLInputValue>): void {
    this.#attempt(() => this.#db.prepare(sql).run(values));
  }

  /** Leaves a row that is there as it is. */
  insert(table: string, row: Record<string, SQLInputValue>): void {
    const columns = Object.keys(row);
    const places = columns.map((column) => `:${column}`);
    this.run(
      `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${places.join(', ')}) ON CONFLICT DO NOTHING`,
      row,
    );
  }

  /** All that `body` writes is there, or nothing of it. */
  transaction<T>(body: () => T): T {
    this.#attempt(() => this.#db.exec('BEGIN IMMEDIATE'));
    try {
      const value = body();
      this.#attempt(() => this.#db.exec('COMMIT'));
      return value;
    } catch (error) {
      // A full disk has ended the transaction already.
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK');
      throw error;
    }
  }

  close(): void {
    this.#db.close();
  }

  #attempt<T>(work: () => T): T {
    try {
      return work();
    } catch (error) {
      throw toStoreError(error, `the ledger ${this.#path}`);
    }
  }
}

function open(path: string): DatabaseSync {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const db = new DatabaseSync(path, { timeout: 10_000 });
  try {
    db.exec('PRAGMA journal_mode = WAL');
    // FULL: a reward that was recorded is there after a power loss too.
    db.exec('PRAGMA synchronous = FULL');
    migrate(db);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}
