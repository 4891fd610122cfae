import type { Version, VersionDiff } from '../../contracts/denv';
import { DenvError } from '../errors';
import { versionIdOf } from '../ids';
import type { ServerContext } from './context';
import { readFrozenFile } from './frozen-file';
import type { SandboxRow, VersionRow } from './rows';
import type { Sandboxes } from './sandboxes';
import { toVersion, treeName } from './views';

const DIFF_LIMIT = 1000;
const MAX_FILE_BYTES = 64 * 1024 * 1024;

export interface VersionsWanted {
  labels: Record<string, string>;
  sandbox: string | null;
}

/** Kept versions: who uses them, until when they stay, what is in them. */
export class Versions {
  /** Versions whose trees are being read. */
  private readonly held = new Map<string, number>();

  constructor(
    private readonly context: ServerContext,
    private readonly sandboxes: Sandboxes,
  ) {}

  /** Oldest first, without the start versions of images. */
  async list(wanted: VersionsWanted, measure: boolean): Promise<Version[]> {
    const rows = this.context.journal
      .versions()
      .filter((row) => row.base === null)
      .filter((row) => wanted.sandbox === null || row.sandbox === wanted.sandbox)
      .filter((row) => Object.entries(wanted.labels).every(([n, v]) => row.labels[n] === v))
      .toSorted((a, b) => a.createdAt - b.createdAt);
    const users = this.users();
    const found: Version[] = [];
    // One after the other: measuring reads through a whole tree.
    for (const row of rows) found.push(await this.view(row, measure, users));
    return found;
  }

  /** @throws DenvError version_not_found */
  get(id: string, measure: boolean): Promise<Version> {
    return this.view(this.sandboxes.version(id), measure, this.users());
  }

  /** @throws DenvError invalid_request for an image's start version, which stays with its image */
  async retain(id: string, retentionS: number): Promise<Version> {
    const row = this.takenOfSandbox(id);
    const kept = { ...row, retainUntil: Date.now() + retentionS * 1000 };
    this.context.journal.putVersion(kept);
    return this.view(kept, false, this.users());
  }

  /** Gone is success. @throws DenvError version_in_use, invalid_request (an image's start version) */
  async remove(id: string): Promise<void> {
    if (!this.context.journal.version(id)) return;
    this.takenOfSandbox(id);
    const usedBy = this.users().get(id) ?? [];
    if (usedBy.length > 0) {
      throw new DenvError(
        'version_in_use',
        `version ${id} is what ${usedBy.join(', ')} runs from`,
        {
          details: { usedBy },
        },
      );
    }
    if (this.neededByWork().has(id)) {
      throw new DenvError('version_in_use', `an operation under way needs version ${id}`, {
        details: { usedBy },
      });
    }
    await this.drop(id);
  }

  /** Drops what is past its retention, but for what a live sandbox or work under way refers to. */
  async sweep(): Promise<void> {
    const over = (row: VersionRow) => row.base === null && row.retainUntil <= Date.now();
    for (const { id } of this.context.journal.versions().filter(over)) {
      // Asked for each anew: removing one takes a while.
      const row = this.context.journal.version(id);
      if (!row || !over(row) || this.isReferredTo(id)) continue;
      await this.drop(id);
    }
  }

  async diff(a: string, b: string): Promise<VersionDiff> {
    const [from, to] = [this.sandboxes.version(a), this.sandboxes.version(b)];
    return this.holding([a, b], () =>
      this.context.driver.diff(treeName(from), treeName(to), DIFF_LIMIT),
    );
  }

  /** @throws DenvError invalid_request when there is no such file, or it is not one */
  async readFile(id: string, path: string): Promise<Buffer> {
    const row = this.sandboxes.version(id);
    const { driver } = this.context;
    const root = row.base === null ? driver.versionPath(id) : driver.basePath(row.base);
    return this.holding([id], () => readFrozenFile(root, path, MAX_FILE_BYTES));
  }

  private isReferredTo(id: string): boolean {
    const live = this.sandboxes.all();
    return live.some((row) => refersTo(row, id)) || this.neededByWork().has(id);
  }

  /** What is running names the versions it works with in its request, in how far it is, or by its key. */
  private neededByWork(): Set<string> {
    const needed = new Set(this.held.keys());
    for (const { key, request, phase } of this.context.journal.runningOperations()) {
      needed.add(versionIdOf(key));
      for (const { version, versionId } of [request, phase] as Named[]) {
        for (const id of [version, versionId]) if (typeof id === 'string') needed.add(id);
      }
    }
    return needed;
  }

  /** First its row: whoever asks for it from now on hears that it is gone, and a restart removes a tree without one. */
  private async drop(id: string): Promise<void> {
    this.context.journal.removeVersion(id);
    await this.context.driver.removeVersion(id);
  }

  private async holding<T>(ids: string[], work: () => Promise<T>): Promise<T> {
    for (const id of ids) this.held.set(id, (this.held.get(id) ?? 0) + 1);
    try {
      return await work();
    } finally {
      for (const id of ids) {
        const left = (this.held.get(id) ?? 1) - 1;
        if (left > 0) this.held.set(id, left);
        else this.held.delete(id);
      }
    }
  }

  private takenOfSandbox(id: string): VersionRow {
    const row = this.sandboxes.version(id);
    if (row.base === null) return row;
    throw new DenvError('invalid_request', `version ${id} is the start version of an image`);
  }

  /** Version → live sandboxes that were made from it. */
  private users(): Map<string, string[]> {
    const users = new Map<string, string[]>();
    for (const { id, version } of this.sandboxes.all()) {
      users.set(version, [...(users.get(version) ?? []), id]);
    }
    return users;
  }

  private async view(
    row: VersionRow,
    measure: boolean,
    users: Map<string, string[]>,
  ): Promise<Version> {
    const bytes =
      measure && row.base === null
        ? await this.holding([row.id], () => this.context.driver.versionBytes(row.id))
        : null;
    return toVersion(row, { bytes, usedBy: users.get(row.id) ?? [] });
  }
}

/** Requests and phases are of many kinds; these fields mean the same in all of them. */
interface Named {
  version?: unknown;
  versionId?: unknown;
}

const refersTo = ({ version, lastVersion }: SandboxRow, id: string): boolean =>
  version === id || lastVersion === id;
