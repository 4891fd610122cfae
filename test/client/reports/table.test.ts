import { toBatchReport } from '../../../client/api/batch-report';
import { oneLine, reportLines } from '../../../client/reports/table';
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
  const report = toBatchReport('b', rows, () => ({
    class: 'cancelled',
    type: 'Cancelled',
    stage: 'create',
    message: 'the batch was cancelled',
  }));

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
