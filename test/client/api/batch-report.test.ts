import { toBatchReport } from '../../../client/api/batch-report';
import { BatchReport } from '../../../contracts/batch';
import { declaredRollout, rolloutResult } from '../../stores/results';

describe('toBatchReport', () => {
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
    expect(toBatchReport('b', rows.slice(1, 2), () => unscored.failure!).meanReward).toBeNull();
  });
});
