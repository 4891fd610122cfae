import type { Labels, StopEvidence, Version } from '../../contracts/denv';
import { DenvError } from '../errors';
import { versionIdOf } from '../ids';
import type { ServerContext } from './context';
import { afterUndo } from './operations';
import type { SandboxRow, VersionRow } from './rows';
import { stoppedError, toVersion, treeName } from './views';

/** A snapshot asked for by itself. */
export interface SnapshotWork {
  sandboxId: string;
  labels?: Labels;
  retentionS?: number;
}

/**
 * Who exists, in what state, forked from what, until when. Rows are kept in memory and written through to the journal;
 * `deleted` ones live in the journal alone.
 */
export class Sandboxes {
  private readonly rows = new Map<string, SandboxRow>();
  private readonly locks = new Map<string, Promise<unknown>>();
  /** Sandboxes that a verify is stopping: what ends in them ends by an act of ours. */
  private readonly stopping = new Set<string>();

  constructor(private readonly context: ServerContext) {}

  /** The journal does not know of every renewal, and while no server ran nobody could renew: each lease begins anew. */
  load(): void {
    for (const row of this.context.journal.sandboxes()) {
      this.rows.set(row.id, row);
      this.touch(row);
    }
  }

  all(): SandboxRow[] {
    return [...this.rows.values()];
  }

  find(id: string): SandboxRow | null {
    return this.rows.get(id) ?? null;
  }

  /** @throws DenvError sandbox_gone, sandbox_not_found */
  get(id: string): SandboxRow {
    const row = this.rows.get(id);
    if (row) return row;
    const { journal } = this.context;
    if (journal.deletedSandbox(id) || journal.hasTombstone(id)) {
      throw new DenvError('sandbox_gone', `sandbox ${id} was deleted`);
    }
    throw new DenvError('sandbox_not_found', `there is no sandbox ${id}`);
  }

  /** A sandbox whose processes run. Renews its lease, as every call on it does. @throws DenvError sandbox_stopped */
  running(id: string): SandboxRow {
    const row = this.get(id);
    if (row.state === 'stopped') throw stoppedError(row);
    if (row.state === 'deleting')
      throw new DenvError('sandbox_gone', `sandbox ${id} is being deleted`);
    if (row.state === 'creating') {
      throw new DenvError('unavailable', `sandbox ${id} is not ready yet`, { retryAfterS: 1 });
    }
    this.touch(row);
    return row;
  }

  put(row: SandboxRow): void {
    this.rows.set(row.id, row);
    this.context.journal.putSandbox(row);
  }

  forget(id: string): void {
    this.rows.delete(id);
    this.context.journal.removeSandbox(id);
  }

  markDeleted(row: SandboxRow): void {
    row.state = 'deleted';
    row.deletedAt = Date.now();
    this.context.journal.transaction(() => {
      this.context.journal.putSandbox(row);
      this.context.journal.record(row.id, 'deleted', {});
    });
    this.rows.delete(row.id);
  }

  /** Notes that a sandbox's processes are gone; its files are there. The first evidence stays. */
  markStopped(row: SandboxRow, evidence: Omit<StopEvidence, 'at'>): void {
    if (row.state !== 'running') return;
    if (this.stopping.has(row.id) && evidence.what !== 'verify_stop') return;
    row.state = 'stopped';
    row.stopped = { ...evidence, at: new Date().toISOString() };
    const { journal, log } = this.context;
    log.info({ sandbox: row.id, evidence }, 'sandbox stopped');
    journal.transaction(() => {
      journal.putSandbox(row);
      journal.record(row.id, 'stopped', { ...row.stopped });
    });
  }

  /** Asks the driver whether a running sandbox still runs, and notes it when it does not. */
  async checkAlive(row: SandboxRow): Promise<void> {
    if (row.state !== 'running') return;
    const state = await this.context.driver.state(row.id);
    if (state.state === 'running') return;
    if (state.state === 'stopped' && state.hostRestart) {
      this.markStopped(row, { by: 'outside', what: 'host_restart' });
      return;
    }
    const oom = state.state === 'stopped' && state.oomKills > 0;
    this.markStopped(row, { by: 'inside', what: oom ? 'oom_kill' : 'init_ended' });
  }

  /** Extends the lease from now on; in memory at once, in the journal when that moves it noticeably. */
  touch(row: SandboxRow, leaseS = row.leaseS): void {
    const until = Date.now() + leaseS * 1000;
    if (until <= row.leaseUntil) return;
    const moved = until - row.leaseUntil;
    row.leaseUntil = until;
    if (moved > 30_000) this.context.journal.relaxed(() => this.context.journal.putSandbox(row));
  }

  /** One piece of work at a time on a sandbox's tree and freezer. */
  async locked<T>(id: string, work: () => Promise<T>): Promise<T> {
    const before = this.locks.get(id) ?? Promise.resolve();
    const mine = before.catch(() => undefined).then(work);
    this.locks.set(id, mine);
    try {
      return await mine;
    } finally {
      if (this.locks.get(id) === mine) this.locks.delete(id);
    }
  }

  /**
   * The sandbox's tree as it is, as the version of this key: taken once, however often it is asked for. With `stop` every
   * process of the sandbox is killed while it is frozen.
   */
  async takeVersion(
    row: SandboxRow,
    key: string,
    options: { stop: boolean; labels?: Labels; retentionS?: number },
  ): Promise<VersionRow> {
    return this.locked(row.id, () => this.take(row, key, options));
  }

  /**
   * The same for a tree that has changed since its last version; where it has not, that one, kept for as long as a new one
   * would be. `flushMs`: all that was spent on writing out what was dirty, for the look at it too.
   */
  async takeIfChanged(
    row: SandboxRow,
    key: string,
  ): Promise<{ version: VersionRow; unchanged: boolean; flushMs: number }> {
    return this.locked(row.id, async () => {
      const { version: last, flushMs } = await this.lastIfUnchanged(row, key);
      if (last) return { version: last, unchanged: true, flushMs };
      const version = await this.take(row, key, { stop: false });
      return { version, unchanged: false, flushMs: flushMs + (version.flushMs ?? 0) };
    });
  }

  private async lastIfUnchanged(
    row: SandboxRow,
    key: string,
  ): Promise<{ version: VersionRow | null; flushMs: number }> {
    const { driver, journal, settings } = this.context;
    const id = versionIdOf(key);
    const nothing = { version: null, flushMs: 0 };
    // One that an earlier try took under this key is the answer to it.
    if (journal.version(id) || (await driver.hasVersion(id))) return nothing;
    const last = journal.version(row.lastVersion ?? row.version);
    if (!last) return nothing;
    const { changed, flushMs } = await driver.changedSince(row.id, treeName(last));
    const spent = { flushMs: flushMs ?? 0 };
    // It may have been dropped meanwhile.
    if (changed || !journal.version(last.id)) return { ...nothing, ...spent };
    const retainUntil = Date.now() + settings.versionRetentionS * 1000;
    const version = { ...last, retainUntil: Math.max(last.retainUntil, retainUntil) };
    journal.relaxed(() => journal.putVersion(version));
    return { version, ...spent };
  }

  private async take(
    row: SandboxRow,
    key: string,
    options: { stop: boolean; labels?: Labels; retentionS?: number },
  ): Promise<VersionRow> {
    const id = versionIdOf(key);
    const { driver, journal, settings } = this.context;
    const kept = journal.version(id);
    if (kept) return kept;
    const complete = await driver.hasVersion(id);
    if (options.stop) this.stopping.add(row.id);
    let timings: { pausedMs: number | null; flushMs: number | null } = {
      pausedMs: null,
      flushMs: null,
    };
    try {
      if (!complete) timings = await driver.snapshot(row.id, id, { stop: options.stop });
      else if (options.stop) await driver.stop(row.id);
      if (options.stop) this.markStopped(row, { by: 'outside', what: 'verify_stop' });
    } finally {
      this.stopping.delete(row.id);
    }
    const version: VersionRow = {
      id,
      sandbox: row.id,
      base: null,
      spec: row.spec,
      createdAt: Date.now(),
      retainUntil: Date.now() + (options.retentionS ?? settings.versionRetentionS) * 1000,
      labels: { ...row.labels, ...options.labels },
      ...timings,
    };
    row.lastVersion = id;
    journal.transaction(() => {
      journal.putVersion(version);
      journal.record(row.id, 'snapshot', { version: id, ...timings });
      // One that is being deleted may be gone from here by now.
      if (this.rows.get(row.id) === row) journal.putSandbox(row);
    });
    return version;
  }

  async snapshotNow(key: string, work: SnapshotWork): Promise<Version> {
    const row = this.get(work.sandboxId);
    try {
      return toVersion(await this.takeVersion(row, key, { stop: false, ...work }));
    } catch (error) {
      throw afterUndo(error);
    }
  }

  /** @throws DenvError version_not_found */
  version(id: string): VersionRow {
    const row = this.context.journal.version(id);
    if (!row) throw new DenvError('version_not_found', `there is no version ${id}`);
    return row;
  }
}
