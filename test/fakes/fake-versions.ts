import type { Labels, Version, VersionDiff } from '../../contracts/denv';
import type { VersionFilter } from '../../denv/client/versions';
import { DenvError } from '../../denv/errors';

/** Everything in a sandbox of the fake. */
export interface FakeTree {
  log: string[];
  files: Map<string, Buffer>;
}

interface Meta {
  sandbox: string | null;
  labels: Labels;
  createdAt: number;
  retainUntil: number;
}

const RETENTION_S = 7 * 86_400;

export const copyTree = ({ log, files }: FakeTree): FakeTree => ({
  log: [...log],
  files: new Map(files),
});

/** Versions in memory, by the rules of the real server: see denv/server/versions.ts. */
export class FakeVersions {
  /** The lines of each. A version is there for as long as its lines are. */
  readonly logs = new Map<string, string[]>();
  readonly #files = new Map<string, Map<string, Buffer>>();
  readonly #meta = new Map<string, Meta>();

  constructor(private readonly usersOf: (id: string) => string[]) {}

  /** Keeps a tree under an id, once. */
  keep(
    id: string,
    tree: FakeTree,
    {
      sandbox,
      labels,
      retentionS = RETENTION_S,
    }: Pick<Meta, 'sandbox' | 'labels'> & { retentionS?: number },
  ): void {
    if (this.logs.has(id)) return;
    const { log, files } = copyTree(tree);
    this.logs.set(id, log);
    this.#files.set(id, files);
    const createdAt = Date.now();
    this.#meta.set(id, { sandbox, labels, createdAt, retainUntil: createdAt + retentionS * 1000 });
  }

  /** @throws DenvError version_not_found */
  tree(id: string): FakeTree {
    const log = this.logs.get(id);
    if (!log) throw new DenvError('version_not_found', `there is no version ${id}`);
    return { log, files: this.#files.get(id) ?? new Map() };
  }

  isSame(id: string, { log, files }: FakeTree): boolean {
    const kept = this.logs.has(id) ? this.tree(id) : null;
    if (!kept || kept.files.size !== files.size) return false;
    const sameFiles = [...files].every(([path, data]) => kept.files.get(path)?.equals(data));
    return sameFiles && JSON.stringify(kept.log) === JSON.stringify(log);
  }

  view(id: string): Version {
    const { sandbox, labels, createdAt, retainUntil } = this.#metaOf(id);
    return {
      id,
      sandbox,
      createdAt: new Date(createdAt).toISOString(),
      retainUntil: new Date(retainUntil).toISOString(),
      reproducible: true,
      labels,
      pausedMs: 1,
      flushMs: 1,
      bytes: null,
      usedBy: this.usersOf(id),
    };
  }

  list({ owner, rolloutId, sandbox }: VersionFilter): Version[] {
    const fits = ({ labels, sandbox: of }: Version) =>
      of !== null &&
      (sandbox === undefined || of === sandbox) &&
      (owner === undefined || labels['owner'] === owner) &&
      (rolloutId === undefined || labels['rolloutId'] === rolloutId);
    return [...this.logs.keys()].map((id) => this.view(id)).filter(fits);
  }

  retain(id: string, retentionS: number): Version {
    this.#takenOfSandbox(id).retainUntil = Date.now() + retentionS * 1000;
    return this.view(id);
  }

  remove(id: string): void {
    if (!this.logs.has(id)) return;
    this.#takenOfSandbox(id);
    const usedBy = this.usersOf(id);
    if (usedBy.length > 0) {
      throw new DenvError('version_in_use', `version ${id} is in use`, { details: { usedBy } });
    }
    this.logs.delete(id);
  }

  readFile(id: string, path: string): Buffer {
    const data = this.tree(id).files.get(path);
    if (data) return data;
    throw new DenvError('invalid_request', `path: ${path}: not there`);
  }

  diff(a: string, b: string): VersionDiff {
    const [before, after] = [this.tree(a).files, this.tree(b).files];
    const paths = [...new Set([...before.keys(), ...after.keys()])].toSorted();
    const files = paths.flatMap((path): VersionDiff['files'] => {
      const [old, now] = [before.get(path), after.get(path)];
      if (now && old?.equals(now)) return [];
      if (now) return [{ path, change: old ? 'changed' : 'added', bytes: now.length }];
      return old ? [{ path, change: 'removed', bytes: old.length }] : [];
    });
    return { files, more: 0 };
  }

  #metaOf(id: string): Meta {
    this.tree(id);
    return this.#meta.get(id) ?? { sandbox: null, labels: {}, createdAt: 0, retainUntil: 0 };
  }

  #takenOfSandbox(id: string): Meta {
    const meta = this.#metaOf(id);
    if (meta.sandbox !== null) return meta;
    throw new DenvError('invalid_request', `version ${id} is the start version of an image`);
  }
}
