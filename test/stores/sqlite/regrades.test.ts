import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { VerdictResult } from '../../../contracts/rollout';
import type { Ledger, RegradeRow } from '../../../stores/ledger';
import { openLedger } from '../../../stores/sqlite/ledger';
import { declaredRollout, rolloutResult } from '../results';

const rolloutId = 'rollout/b/t/0';

const verdictOf = (over: Partial<VerdictResult> = {}): VerdictResult => ({
  key: `${rolloutId}/regrade/g1/0`,
  version: 'ver_2',
  verdict: 'reward',
  reward: 1,
  rewards: { speed: 2 },
  evidenceRef: 'sha256:02',
  summary: 'reward 1',
  of: 'submission',
  ...over,
});

const regradeOf = (over: Partial<RegradeRow> = {}): Omit<RegradeRow, 'current'> => ({
  regradeId: 'g1',
  rolloutId,
  version: 'ver_2',
  verdict: verdictOf(),
  reward: 1,
  rewards: { speed: 2 },
  why: null,
  verifierDigest: 'sha256:v',
  at: '2026-01-02T00:00:00.000Z',
  ...over,
});

const none = verdictOf({ verdict: 'none', reward: null, rewards: {} });

describe('verdicts given later', () => {
  let dir: string;
  let path: string;
  let ledger: Ledger;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'regrades-'));
    path = join(dir, 'ledger.db');
    ledger = await openLedger(path);
    await ledger.recordResult(rolloutResult());
  });
  afterEach(async () => {
    await ledger.close();
    await rm(dir, { recursive: true, force: true });
  });

  it('stand beside the rollout’s own result, which stays', async () => {
    const recorded = await ledger.recordRegrade(regradeOf());

    expect(recorded).toEqual({ ...regradeOf(), current: true });
    expect(await ledger.rollout(rolloutId)).toEqual({
      ...declaredRollout(),
      result: rolloutResult(),
      regraded: recorded,
    });
    expect(await ledger.rollouts({})).toEqual([await ledger.rollout(rolloutId)]);
    expect(await ledger.results([rolloutId])).toEqual([rolloutResult()]);
  });

  it('are recorded once for a regrade and a rollout: the first one wins, for every process', async () => {
    const other = await openLedger(path);
    try {
      await ledger.recordRegrade(regradeOf());

      const second = await other.recordRegrade(regradeOf({ reward: 0, verdict: null, why: 'no' }));

      expect(second).toEqual({ ...regradeOf(), current: true });
      expect(await other.regrades({ rolloutId })).toHaveLength(1);
    } finally {
      await other.close();
    }
  });

  it('the newest with a verdict is current; one without, newer still, is not', async () => {
    await ledger.recordRegrade(regradeOf());
    await ledger.recordRegrade(regradeOf({ regradeId: 'g2', reward: 0.25 }));
    await ledger.recordRegrade(regradeOf({ regradeId: 'g3', verdict: none, reward: null }));
    await ledger.recordRegrade(
      regradeOf({ regradeId: 'g4', verdict: null, reward: null, why: 'its snapshot has expired' }),
    );

    const all = await ledger.regrades({ rolloutId });

    expect(all.map(({ regradeId, current }) => [regradeId, current])).toEqual([
      ['g1', false],
      ['g2', true],
      ['g3', false],
      ['g4', false],
    ]);
    expect((await ledger.rollout(rolloutId))?.regraded?.regradeId).toBe('g2');
    expect((await ledger.regrades({ regradeId: 'g4' }))[0]?.why).toBe('its snapshot has expired');
  });

  it('a rollout that was given a score later is no longer among the unscored', async () => {
    const failed = (index: number) =>
      rolloutResult({
        rolloutId: `rollout/b/t/${index}`,
        index,
        outcome: 'unscored',
        reward: null,
      });
    await ledger.recordResult(failed(1));
    await ledger.recordResult(failed(2));
    await ledger.recordRegrade(regradeOf({ rolloutId: 'rollout/b/t/1' }));
    await ledger.recordRegrade(
      regradeOf({ rolloutId: 'rollout/b/t/2', verdict: none, reward: null }),
    );

    const unscored = await ledger.rollouts({ unscored: true });

    expect(unscored.map((row) => row.rolloutId)).toEqual(['rollout/b/t/2']);
  });

  it('are added to a ledger of the version before them', async () => {
    const old = join(dir, 'old.db');
    await (await openLedger(old)).close();
    const db = new DatabaseSync(old);
    db.exec('DROP TABLE regrades; DELETE FROM migrations WHERE version = 2');
    db.close();

    const migrated = await openLedger(old);
    try {
      await migrated.recordResult(rolloutResult());
      expect((await migrated.recordRegrade(regradeOf())).current).toBe(true);
    } finally {
      await migrated.close();
    }
  });
});

describe('how rollouts ended', () => {
  let dir: string;
  let ledger: Ledger;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'ends-'));
    ledger = await openLedger(join(dir, 'ledger.db'));
  });
  afterEach(async () => {
    await ledger.close();
    await rm(dir, { recursive: true, force: true });
  });

  it('has the current reward, and every version that a verdict of the submission judged', async () => {
    const start = verdictOf({ key: 'k/start', of: 'start', version: 'ver_0' });
    const [own] = rolloutResult().verdicts;
    await ledger.recordResult(rolloutResult({ verdicts: [own!, start] }));
    await ledger.recordRegrade(regradeOf());
    await ledger.recordRegrade(regradeOf({ regradeId: 'g2', verdict: null, reward: null }));

    expect(await ledger.ends({ rolloutIds: [rolloutId, 'rollout/none'] })).toEqual([
      {
        rolloutId,
        batchId: 'b',
        taskId: 't',
        parentRolloutId: null,
        endedAt: '2026-01-01T00:01:00.000Z',
        reward: 1,
        judged: [
          { version: 'ver_2', verdict: 'reward', later: false },
          { version: 'ver_2', verdict: 'reward', later: true },
        ],
      },
    ]);
  });

  it('is asked for by batch, and by what continuations go on from', async () => {
    const child = { rolloutId: `${rolloutId}/e1.1`, parentRolloutId: rolloutId, parentStep: 1 };
    await ledger.declareRollouts([
      declaredRollout(),
      declaredRollout(child),
      declaredRollout({ rolloutId: 'rollout/c/t/0', batchId: 'c' }),
    ]);
    const ids = async (filter: Parameters<Ledger['ends']>[0]) =>
      (await ledger.ends(filter)).map((end) => [end.rolloutId, end.endedAt]);

    expect(await ids({ batchIds: ['b'] })).toEqual([
      [rolloutId, null],
      [child.rolloutId, null],
    ]);
    expect(await ids({ parents: [rolloutId] })).toEqual([[child.rolloutId, null]]);
    expect(await ids({ openContinuations: true })).toEqual([[child.rolloutId, null]]);
    await ledger.recordResult(rolloutResult({ rolloutId: child.rolloutId }));
    expect(await ids({ openContinuations: true })).toEqual([]);
  });
});
