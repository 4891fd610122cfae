import { flat } from '../../../../workflows/explore/strategies/flat';
import { choice, forked, root, search } from './tree-of';

describe('flat', () => {
  test.each([
    ['last' as const, 'r@4'],
    [2, 'r@2'],
  ])('forks the chosen step (%s) so many times', (at, point) => {
    const tree = search(flat, root([1, 2, 3, 4]), {
      choice: choice({ at, count: 3 }),
      play: () => ({ reward: 1 }),
    });

    expect(forked(tree)).toEqual([point, point, point]);
  });

  test('wants all of them at once, and those that failed no second time', () => {
    const { fork, done } = flat([root([1])], choice({ count: 5 }));

    expect(fork).toHaveLength(5);
    expect(done).toBe(false);
    const tree = search(flat, root([1]), { choice: choice(), play: () => ({ reward: null }) });
    expect(forked(tree)).toHaveLength(3);
  });

  test('is done at once where there is nothing to fork', () => {
    expect(flat([root([])], choice())).toEqual({ fork: [], done: true });
  });

  test('uncertain: probes each checkpoint twice, and goes on from where the rewards differ', () => {
    let coin = 0;
    const tree = search(flat, root([1, 2, 3]), {
      choice: choice({ at: 'uncertain', count: 4 }),
      play: ({ step }) => ({ reward: step === 2 ? coin++ % 2 : 1 }),
    });

    expect(forked(tree).join(' ')).toBe('r@1 r@1 r@2 r@2 r@3 r@3 r@2 r@2 r@2 r@2');
  });

  test('uncertain: stays with the step that the probes have found, whatever comes of it', () => {
    const tree = search(flat, root([1, 2]), {
      choice: choice({ at: 'uncertain', count: 6 }),
      play: ({ step, n }) => ({ reward: step === 1 && n === 1 ? 0 : 1 }),
      atOnce: 4,
    });

    expect(forked(tree).slice(4)).toEqual(Array.from({ length: 6 }, () => 'r@1'));
  });
});
