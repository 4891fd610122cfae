import { stepsOf, worstOf } from '../../demo/step-values';

const value = (step: number, mean: number | null) => ({ step, value: mean, visits: 8, scored: 8 });
const did = new Map([
  [1, 'go corridor'],
  [2, 'go stair'],
]);

describe('stepsOf', () => {
  test('tells what each step cost, the last one by the reward', () => {
    const steps = stepsOf([value(2, 0.5), value(1, 0.75), value(4, 0.25)], 0, did);

    expect(steps).toEqual([
      { step: 1, did: 'go corridor', value: 0.75, visits: 8, drop: 0.25 },
      { step: 2, did: 'go stair', value: 0.5, visits: 8, drop: 0.25 },
      { step: 4, did: '', value: 0.25, visits: 8, drop: 0.25 },
    ]);
  });

  test('leaves out what no continuation was scored from, and a rollout without a reward lost nothing at its end', () => {
    const steps = stepsOf([value(1, 0.5), value(2, null), value(3, 0.25)], null, did);

    expect(steps.map(({ step, drop }) => [step, drop])).toEqual([
      [1, 0.25],
      [3, 0],
    ]);
  });
});

describe('worstOf', () => {
  test.each([
    [[0.25, 0.5, 0], 2],
    [[0.5, 0.5, 0], 1],
    [[-0.5, -0.25, -0.75], 2],
  ])('of the drops %j is that of step %d', (drops, step) => {
    const steps = drops.map((drop, n) => ({ step: n + 1, did: '', value: 0, visits: 1, drop }));

    expect(worstOf(steps)?.step).toBe(step);
  });

  test('of no steps is none', () => {
    expect(worstOf([])).toBeUndefined();
  });
});
