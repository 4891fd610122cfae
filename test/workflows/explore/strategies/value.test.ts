import { standardError } from '../../../../workflows/explore/strategies/uncertain';
import { value } from '../../../../workflows/explore/strategies/value';
import { choice, forked, root, search } from './tree-of';

describe('value', () => {
  test('visits every k-th checkpoint in turns', () => {
    const tree = search(value, root([1, 2, 3, 4, 5]), {
      choice: choice({ every: 2, count: 2 }),
      play: () => ({ reward: 1 }),
      atOnce: 4,
    });

    expect(forked(tree)).toEqual(['r@1', 'r@3', 'r@5', 'r@1', 'r@3', 'r@5']);
  });

  test('begins at a step that was given', () => {
    const tree = search(value, root([1, 2, 3]), {
      choice: choice({ at: 2, count: 1 }),
      play: () => ({ reward: 1 }),
    });

    expect(forked(tree)).toEqual(['r@2', 'r@3']);
  });

  test('uncertain: as many visits again go where the standard error is the largest', () => {
    let coin = 0;
    const tree = search(value, root([1, 2, 3]), {
      choice: choice({ at: 'uncertain', count: 2 }),
      play: ({ step }) => ({ reward: step === 3 ? coin++ % 2 : 0 }),
    });

    expect(forked(tree)).toHaveLength(12);
    const more = forked(tree).slice(6);
    expect(more.filter((point) => point === 'r@3').length).toBeGreaterThan(2);
    expect(new Set(more).size).toBeGreaterThan(1);
  });

  test('waits for the first visits before it says where more are needed', () => {
    const tree = [root([1])];
    const first = value(tree, choice({ at: 'uncertain', count: 1 }));
    expect(first.fork).toEqual([{ rolloutId: 'r', step: 1 }]);

    const child = { ...root([]), rolloutId: 'c', parentRolloutId: 'r', step: 1, depth: 1 };

    expect(value([...tree, child], choice({ at: 'uncertain', count: 1 }))).toEqual({
      fork: [],
      done: false,
    });
  });
});

describe('the standard error of a value', () => {
  const ended = (reward: number) => ({ ...root([], reward), depth: 1 });

  test('is infinite before the first visit, and shrinks with each', () => {
    const errors = [[], [1], [1, 1], [1, 1, 1]].map((rewards) =>
      standardError(rewards.map(ended), 1),
    );

    expect(errors[0]).toBe(Infinity);
    expect(errors[1]).toBeGreaterThan(errors[2] ?? 0);
    expect(errors[2]).toBeGreaterThan(errors[3] ?? 0);
    expect(errors[3]).toBeGreaterThan(0);
  });

  test('is larger where rewards differ', () => {
    expect(standardError([0, 1].map(ended), 1)).toBeGreaterThan(
      standardError([1, 1].map(ended), 1),
    );
  });
});
