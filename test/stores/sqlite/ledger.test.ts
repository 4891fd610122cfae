import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { KeyConflictError } from '../../../stores/ledger';
import { openLedger } from '../../../stores/sqlite/ledger';
import { declaredRollout, rolloutResult } from '../results';

describe('the SQLite ledger', () => {
  let dir: string;
  let path: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'ledger-'));
    path = join(dir, 'sub', 'ledger.db');
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  const batch = {
    batchId: 'b',
    taskset: 'set',
    declared: 2,
    rolloutsRef: 'sha256:aa',
    createdAt: '2026-01-01T00:00:00.000Z',
  };
  const two = [
    declaredRollout({ rolloutId: 'rollout/b/t/0' }),
    declaredRollout({ rolloutId: 'rollout/b/t/1', index: 1, identity: 'id-2' }),
  ];

  it('keeps what is declared for the next process', async () => {
    const first = await openLedger(path);
    await first.declareBatch(batch, two);
    await first.close();

    const second = await openLedger(path);
    try {
      expect(await second.batch('b')).toEqual(batch);
      expect(await second.batches(5)).toEqual([batch]);
      expect(await second.rollouts({ batchId: 'b' })).toEqual(
        two.map((rollout) => ({ ...rollout, result: null })),
      );
    } finally {
      await second.close();
    }
  });

  it('takes the same declaration again, also with another address in its inputs', async () => {
    const ledger = await openLedger(path);
    try {
      await ledger.declareBatch(batch, two);
      await ledger.declareBatch({ ...batch, rolloutsRef: 'sha256:bb', createdAt: 'later' }, two);

      expect(await ledger.batch('b')).toEqual(batch);
      expect(await ledger.rollouts({ batchId: 'b' })).toHaveLength(2);
    } finally {
      await ledger.close();
    }
  });

  it.each([
    [
      'another task',
      [two[0]!, { ...two[1]!, identity: 'id-9' }],
      'rollout/b/t/1 is another one now',
    ],
    ['one rollout less', [two[0]!], 'it has 2 rollouts, not 1'],
    [
      'one rollout more',
      [...two, declaredRollout({ rolloutId: 'rollout/b/t/2' })],
      'rollout/b/t/2 is not in it',
    ],
  ])('refuses the same batch with %s and leaves it alone', async (_what, rollouts, message) => {
    const ledger = await openLedger(path);
    try {
      await ledger.declareBatch(batch, two);

      const again = ledger.declareBatch(batch, rollouts);

      await expect(again).rejects.toThrow(KeyConflictError);
      await expect(again).rejects.toThrow(
        `batch b was declared before with other contents: ${message}`,
      );
      expect(await ledger.rollouts({ batchId: 'b' })).toHaveLength(2);
    } finally {
      await ledger.close();
    }
  });

  it('counts continuations apart from what a batch declares', async () => {
    const ledger = await openLedger(path);
    const child = declaredRollout({
      rolloutId: 'rollout/b/t/0/e1.1',
      parentRolloutId: 'rollout/b/t/0',
      parentStep: 1,
    });
    try {
      await ledger.declareBatch(batch, two);
      await ledger.declareRollouts([child]);
      await ledger.declareRollouts([child]);

      await ledger.declareBatch(batch, two);

      expect(await ledger.rollouts({ parentRolloutId: 'rollout/b/t/0' })).toEqual([
        { ...child, result: null },
      ]);
    } finally {
      await ledger.close();
    }
  });

  it('keeps the first recorded result, for every process', async () => {
    const ledger = await openLedger(path);
    const other = await openLedger(path);
    const result = rolloutResult();
    try {
      await ledger.declareBatch(batch, two);

      expect(await ledger.recordResult(result)).toEqual(result);
      expect(await other.recordResult({ ...result, reward: 1, outcome: 'unscored' })).toEqual(
        result,
      );

      expect(await other.results(['rollout/b/t/0', 'rollout/b/t/1'])).toEqual([result]);
      expect((await other.rollout('rollout/b/t/0'))?.result).toEqual(result);
    } finally {
      await ledger.close();
      await other.close();
    }
  });

  it('writes attempts, verdicts and usage with the result, once', async () => {
    const ledger = await openLedger(path);
    try {
      await ledger.recordResult(rolloutResult());
      await ledger.recordResult(rolloutResult());
    } finally {
      await ledger.close();
    }

    const db = new DatabaseSync(path);
    try {
      const count = (table: string) =>
        db.prepare(`SELECT count(*) AS n FROM ${table}`).get()?.['n'];
      expect(['attempts', 'verdicts', 'usage', 'rollouts'].map(count)).toEqual([1, 1, 1, 1]);
      expect({ ...db.prepare('SELECT reward, verdict FROM verdicts').get() }).toEqual({
        reward: 0.5,
        verdict: 'reward',
      });
    } finally {
      db.close();
    }
  });

  it('records the result of a rollout that nobody declared, so it can be rebuilt', async () => {
    const ledger = await openLedger(path);
    try {
      await ledger.recordResult(rolloutResult());

      expect(await ledger.rollout('rollout/b/t/0')).toEqual({
        ...declaredRollout(),
        result: rolloutResult(),
      });
    } finally {
      await ledger.close();
    }
  });

  it('filters by outcome, failure class and newest first n', async () => {
    const ledger = await openLedger(path);
    const failed = rolloutResult({
      rolloutId: 'rollout/b/t/1',
      index: 1,
      outcome: 'unscored',
      reward: null,
      failure: { class: 'verifier', type: 'VerifierFailed', stage: 'verify', message: 'crashed' },
    });
    const ids = async (filter: Parameters<typeof ledger.rollouts>[0]) =>
      (await ledger.rollouts(filter)).map((rollout) => rollout.rolloutId);
    try {
      await ledger.declareBatch(batch, two);
      expect(await ids({ unscored: true })).toEqual([]);
      await ledger.recordResult(rolloutResult());
      await ledger.recordResult(failed);

      expect(await ids({ unscored: true })).toEqual(['rollout/b/t/1']);
      expect(await ids({ failureClass: 'verifier' })).toEqual(['rollout/b/t/1']);
      expect(await ids({ failureClass: 'infra' })).toEqual([]);
      expect(await ids({ limit: 1 })).toEqual(['rollout/b/t/1']);
      expect(await ids({})).toEqual(['rollout/b/t/0', 'rollout/b/t/1']);
      expect((await ledger.rollout('rollout/b/t/1'))?.result?.reward).toBeNull();
    } finally {
      await ledger.close();
    }
  });

  it('refuses a ledger of a newer version, and says so', async () => {
    await (await openLedger(path)).close();
    const db = new DatabaseSync(path);
    db.exec(`INSERT INTO migrations VALUES (99, 'x')`);
    db.close();

    await expect(openLedger(path)).rejects.toThrow('the ledger is at version 99');
  });
});
