import { combine, namedRewards } from '../../../workflows/grading/combine';

const of = (...pairs: [reward: number | null, weight: number][]) =>
  pairs.map(([reward, weight]) => ({ reward, weight }));

describe('combine', () => {
  test.each([
    ['weighted', of([1, 1], [0, 1]), 0.5],
    ['weighted', of([1, 3], [0.5, 1]), 0.875],
    ['weighted', of([0.1, 7]), 0.1],
    ['weighted', of([1, 1], [1, -0.25]), 0.75],
    ['weighted', of([0, 2], [0.5, -1]), -0.5],
    ['weighted', of([1, -1]), -1],
    ['weighted', of([-2, 1], [3, 1]), 0.5],
    ['any', of([0.25, 1], [0.75, 9], [-1, -1]), 0.75],
    ['all', of([0.25, 1], [0.75, 9]), 0.25],
    ['weighted', of([1, 1], [null, 1]), null],
    ['any', of([1, 1], [null, 1]), null],
    ['all', of([0, 1], [null, -1]), null],
    ['weighted', of(), null],
  ] as const)('%s of %j is %d', (how, grades, reward) => {
    expect(combine(how, [...grades])).toBe(reward);
  });
});

describe('namedRewards', () => {
  const verify = { name: 'verify', kind: 'verify', reward: 1, rewards: { a: 0.5 }, counts: true };
  const hud = { name: 'hud', kind: 'hud', reward: 0.25, rewards: { a: 0.25 }, counts: true };
  const bash = { name: 'tests', kind: 'bash', reward: 0, rewards: {}, counts: true };
  const judge = { name: 'j', kind: 'judge', reward: null, rewards: { c: 1 }, counts: true };

  test.each([
    ['the sole one that counts keeps its names', [hud], { a: 0.25 }],
    [
      'one beside it has its own name before them',
      [verify, { ...hud, counts: false }],
      { a: 0.5, hud: 0.25, 'hud.a': 0.25 },
    ],
    [
      'of several, each has its name before them',
      [verify, hud, bash],
      { verify: 1, 'verify.a': 0.5, hud: 0.25, 'hud.a': 0.25, tests: 0 },
    ],
    ['a command alone is named', [bash], { tests: 0 }],
    ['one without a reward has only what is inside', [judge], { 'j.c': 1 }],
  ])('%s', (_what, grades, named) => {
    expect(namedRewards(grades as Parameters<typeof namedRewards>[0])).toEqual(named);
  });
});
