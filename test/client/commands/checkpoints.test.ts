import { checkpointTable } from '../../../client/commands/checkpoints';
import { versionsWords } from '../../../client/doctor/versions';
import { regradeLines, regradeReportLines } from '../../../client/reports/regrade';
import { toBatchReport } from '../../../client/api/batch-report';
import { reportLines } from '../../../client/reports/table';
import { sizeWords, spanWords } from '../../../client/reports/sizes';
import type { RegradeRow } from '../../../stores/ledger';
import { declaredRollout, rolloutResult } from '../../stores/results';

const regrade = (over: Partial<RegradeRow> = {}): RegradeRow => ({
  regradeId: 'regrade/b/1',
  rolloutId: 'rollout/b/t/0',
  version: 'ver_2',
  verdict: rolloutResult().verdicts[0]!,
  reward: 1,
  rewards: { speed: 3 },
  why: null,
  verifierDigest: 'sha256:v',
  at: '2026-01-02T00:00:00.000Z',
  current: true,
  ...over,
});

describe('later verdicts as a person reads them', () => {
  it('stand in the report of a batch with the first reward beside, and count in its mean', () => {
    const crashed = rolloutResult({
      rolloutId: 'rollout/b/t/1',
      index: 1,
      outcome: 'unscored',
      reward: null,
      rewards: {},
      failure: { class: 'verifier', type: 'VerifierFailed', stage: 'verify', message: 'crashed' },
    });
    const report = toBatchReport(
      'b',
      [
        { ...declaredRollout(), result: rolloutResult(), regraded: regrade() },
        { ...declaredRollout(), result: crashed, regraded: regrade({ reward: 0, rewards: {} }) },
      ],
      () => {
        throw new Error('all have a result');
      },
    );

    expect(report).toMatchObject({ scored: 2, unscored: 0, meanReward: 0.5 });
    expect(report.rollouts.map(({ regraded, failure }) => ({ regraded, failure }))).toEqual([
      { regraded: { regradeId: 'regrade/b/1', first: 0.5 }, failure: null },
      { regraded: { regradeId: 'regrade/b/1', first: null }, failure: null },
    ]);
    expect(reportLines(report)).toEqual([
      'rollout  outcome  reward         stop  steps',
      't/0      scored   1 (first 0.5)  done  2      speed 3',
      't/1      scored   0 (first -)    done  2',
      '',
      'batch b: mean reward 0.5 over 2/2 scored, 2 by a later verdict',
    ]);
  });

  it('are listed with their rollout, the current one marked', () => {
    const gone = regrade({
      regradeId: 'regrade/b/2',
      verdict: null,
      reward: null,
      why: 'its snapshot ver_2 has expired or was removed',
      current: false,
    });

    expect(regradeLines({ regrades: [regrade(), gone] })).toEqual([
      '  regrade/b/1 of ver_2, 2026-01-02T00:00:00.000Z: reward 1 (current)',
      '  regrade/b/2 of ver_2, 2026-01-02T00:00:00.000Z: its snapshot ver_2 has expired or was removed',
    ]);
  });

  const judged = { version: 'ver_1', judged: true, why: null };
  const report = {
    regradeId: 'regrade/b/1',
    judged: 2,
    missing: 1,
    turned: 1,
    same: 1,
    rollouts: [
      { ...judged, rolloutId: 'a', before: 1, reward: 0, turned: true },
      { ...judged, rolloutId: 'b', before: 1, reward: 1, turned: false },
      {
        rolloutId: 'c',
        before: null,
        reward: null,
        version: 'v',
        judged: false,
        turned: false,
        why: 'it is gone',
      },
    ],
  };

  it('say which rewards a regrade changed', () => {
    const sum = 'regrade/b/1: 2 of 3 verified, 1 without a snapshot; 1 changed, 1 same';
    expect(regradeReportLines(report, {})).toEqual([
      'rollout  before  now',
      'a        1       0    changed',
      'b        1       1    same',
      'c        -            it is gone',
      '',
      sum,
    ]);
    expect(regradeReportLines(report, { diff: true })).toEqual([
      'rollout  before  now',
      'a        1       0    changed',
      'c        -            it is gone',
      '',
      sum,
    ]);
  });

  it('say when there is nothing to verify, or nothing changed', () => {
    const empty = { regradeId: null, judged: 0, missing: 0, turned: 0, same: 0, rollouts: [] };
    expect(regradeReportLines(empty, {})).toEqual(['nothing to verify']);

    const same = { ...report, missing: 0, judged: 1, turned: 0, rollouts: [report.rollouts[1]!] };
    expect(regradeReportLines(same, { diff: true })).toEqual([
      'regrade/b/1: 1 of 1 verified; 0 changed, 1 same',
    ]);
  });
});

describe('versions as a person reads them', () => {
  it('are listed with size, age, expiry and what keeps them', () => {
    const there = {
      exists: true,
      bytes: 5 * 2 ** 20,
      createdAt: 'x',
      ageS: 7200,
      expiresAt: 'then',
    };
    const lines = checkpointTable([
      { ...there, step: 1, version: 'ver_1', keptBy: { kind: 'none', why: 'nothing keeps it' } },
      { ...there, step: null, version: 'ver_2', keptBy: { kind: 'verdict', why: 'its verdict' } },
      {
        step: 2,
        version: 'ver_3',
        exists: false,
        bytes: null,
        createdAt: null,
        ageS: null,
        expiresAt: null,
        keptBy: null,
      },
    ]);

    expect(lines).toEqual([
      'step   version  size    age  expires  kept because',
      '1      ver_1    5.0 MB  2 h  then     removed soon: nothing keeps it',
      'final  ver_2    5.0 MB  2 h  then     its verdict',
      '2      ver_3    -       -    -        gone: it has expired or was removed',
    ]);
    expect(checkpointTable([])).toEqual(['no checkpoints, and no final snapshot']);
  });

  it('are summed up by doctor', () => {
    const all = {
      versions: 9,
      bytes: 3 * 2 ** 30,
      keptBy: {},
      wouldRemove: { versions: 2, bytes: 2 ** 30, why: {} },
      budgetBytes: 2 * 2 ** 30,
      overBytes: 0,
      days: 7,
    };
    expect(versionsWords(all)).toBe(
      '9, 3.0 GB of 2.0 GB, for at most 7 days; 2 would be removed now (1.0 GB)',
    );
    const none = { versions: 0, bytes: 0, why: {} };
    expect(versionsWords({ ...all, wouldRemove: none, overBytes: 2 ** 30 })).toBe(
      '9, 3.0 GB of 2.0 GB, for at most 7 days; none would be removed now; 1.0 GB over, and all of it is kept',
    );
  });

  it.each([
    [0, '0 bytes'],
    [1023, '1023 bytes'],
    [1024, '1.0 KB'],
    [150 * 2 ** 20, '150 MB'],
    [2 ** 42, '4.0 TB'],
  ])('%s is %s', (bytes, words) => expect(sizeWords(bytes)).toBe(words));

  it.each([
    [0, '0 s'],
    [59.9, '59 s'],
    [60, '1 min'],
    [7300, '2 h'],
    [200_000, '2 d'],
  ])('%s s are %s', (seconds, words) => expect(spanWords(seconds)).toBe(words));
});
