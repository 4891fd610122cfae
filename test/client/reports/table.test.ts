import { BatchReport } from '../../../contracts/batch';
import { oneLine, reportLines, reportOf } from '../../../client/reports/table';
import { declaredRollout, rolloutResult } from '../../stores/results';

describe('the report of a batch', () => {
  const unscored = rolloutResult({
    rolloutId: 'rollout/b/t/1',
    index: 1,
    outcome: 'unscored',
    reward: null,
    rewards: {},
    failure: { class: 'verifier', type: 'VerifierFailed', stage: 'verify', message: 'it\ncrashed' },
  });
  const rows = [
    { ...declaredRollout(), result: rolloutResult() },
    { ...declaredRollout({ rolloutId: 'rollout/b/t/1', index: 1 }), result: unscored },
    {
      ...declaredRollout({ rolloutId: 'rollout/b/t/2', index: 2 }),
      result: rolloutResult({ reward: 0 }),
    },
    { ...declaredRollout({ rolloutId: 'rollout/b/t/3', index: 3 }), result: null },
  ];
  const report = reportOf('b', rows, () => ({
    class: 'cancelled',
    type: 'Cancelled',
    stage: 'create',
    message: 'the batch was cancelled',
  }));

  it('has the mean over what is scored, valid zeros among them, and its coverage', () => {
    const { rollouts, ...counts } = report;

    expect(counts).toEqual({ batchId: 'b', declared: 4, scored: 2, unscored: 2, meanReward: 0.25 });
    expect(rollouts.map(({ reward }) => reward)).toEqual([0.5, null, 0, null]);
    expect(BatchReport.parse(report)).toEqual(report);
  });

  it('counts attempts and says why there is no result', () => {
    expect(report.rollouts[0]).toMatchObject({ attempts: 1, modelCallsReissued: 1, task: 't' });
    expect(report.rollouts[3]).toMatchObject({
      outcome: 'unscored',
      reward: null,
      stopReason: 'cancelled',
      failure: { class: 'cancelled', message: 'the batch was cancelled' },
    });
  });

  it('has no mean when nothing is scored', () => {
    expect(reportOf('b', rows.slice(1, 2), () => unscored.failure!).meanReward).toBeNull();
  });

  it('is a plain table for a person', () => {
    expect(reportLines(report)).toEqual([
      'rollout  outcome   reward  stop       steps',
      't/0      scored    0.5     done       2      speed 1',
      't/1      unscored  -       done       2      verifier: it … crashed',
      't/0      scored    0       done       2      speed 1',
      't/3      unscored  -       cancelled  0      cancelled: the batch was cancelled',
      '',
      'batch b: mean reward 0.25 over 2/4 scored',
    ]);
  });

  it('puts a traceback on one line, with what went wrong at its end', () => {
    const traceback = 'it ended: Traceback\n  File "env.py"\n\nValueError: no\n';

    expect(oneLine(traceback)).toBe('it ended: Traceback … ValueError: no');
    expect(oneLine('x'.repeat(200), 20)).toBe(`${'x'.repeat(17)}...`);
  });
});
