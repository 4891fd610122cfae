import { mkdtempSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Journal } from '../../../denv/server/journal';
import type { SandboxRow } from '../../../denv/server/rows';

const sandbox: SandboxRow = {
  id: 'sb_1',
  key: 'k',
  state: 'running',
  spec: {
    image: { kind: 'dir', path: '/images/a' },
    base: 'b',
    digest: 'sha256:1',
    reproducible: true,
    env: { A: '1' },
    workdir: '/workspace',
    uid: 1000,
    caps: { cpus: 0.5, memoryMb: 64, pids: 16 },
    command: null,
    controller: { kind: 'hud', command: ['serve'], port: 8765, uid: 1000, timeoutS: 240 },
  },
  version: 'ver_1',
  forkedFrom: { sandbox: null, version: 'ver_0' },
  labels: { owner: 'me' },
  createdAt: 1,
  leaseUntil: 2,
  leaseS: 600,
  controller: { execId: 'x1', ready: true, sessionId: 's', protocolVersion: '1', hudStart: 'k/1' },
  ports: { 80: 30_000 },
  stopped: null,
  deletedAt: null,
};

describe('Journal', () => {
  let folder: string;
  let path: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'denv-journal-'));
    path = join(folder, 'journal.db');
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  const withJournal = <T>(work: (journal: Journal) => T): T => {
    const journal = new Journal(path);
    try {
      return work(journal);
    } finally {
      journal.close();
    }
  };
  const withFile = (sql: string): unknown => {
    const db = new DatabaseSync(path);
    try {
      return db.prepare(sql).get() ?? null;
    } finally {
      db.close();
    }
  };

  it('keeps a second server off the data directory', () => {
    withJournal(() =>
      expect(() => new Journal(path)).toThrow(`another denv server holds ${path}; stop it first`),
    );
  });

  it('reads every row as it was written', () => {
    const { id, version, labels, spec } = sandbox;
    const kept = {
      id: version,
      sandbox: id,
      base: null,
      spec,
      createdAt: 1,
      retainUntil: Number.MAX_SAFE_INTEGER,
      labels,
      pausedMs: 1.5,
      flushMs: null,
    };
    const operation = {
      key: 'o',
      kind: 'exec',
      sandbox: id,
      digest: 'd',
      request: { argv: ['a'] },
    };
    withJournal((journal) => {
      journal.putSandbox(sandbox);
      journal.putVersion(kept);
      journal.beginOperation(operation);
      journal.setPhase('o', { startedAt: 1 });
      journal.record(id, 'created', { version });
    });

    withJournal((journal) => {
      expect(journal.sandboxes()).toEqual([sandbox]);
      expect(journal.version(version)).toEqual(kept);
      expect(journal.runningOperations()).toEqual([
        { ...operation, phase: { startedAt: 1 }, state: 'running', status: 0, body: null },
      ]);
      expect(journal.records(id)).toEqual([
        { seq: 1, at: expect.any(String), event: 'created', data: { version } },
      ]);
    });
  });

  it('refuses a row that it would not write, and says what is wrong with it', () => {
    withJournal((journal) => journal.putSandbox(sandbox));
    withFile(`update sandboxes set row = json_remove(row, '$.leaseS')`);

    expect(() => withJournal((journal) => journal.sandboxes())).toThrow(
      /journal\.db: a row of sandboxes is not as this server writes them: .*leaseS/s,
    );
  });

  it('counts its version, also in a file that was written before it was counted', () => {
    withJournal((journal) => journal.putSandbox(sandbox));
    withFile('pragma user_version = 0');

    withJournal((journal) => expect(journal.sandboxes()).toEqual([sandbox]));

    expect(withFile('pragma user_version')).toEqual({ user_version: 1 });
  });

  it('refuses a file that a newer release has written, and changes nothing in it', () => {
    withJournal((journal) => journal.putSandbox(sandbox));
    withFile('pragma user_version = 2');

    expect(() => new Journal(path)).toThrow(
      `${path} was written by a newer denv server (version 2; this one reads up to 1): start that release, or choose another folder with --data`,
    );

    expect(withFile('pragma user_version')).toEqual({ user_version: 2 });
  });
});
