import { tree } from '../../../../workflows/explore/strategies/tree';
import { choice, forked, root, search } from './tree-of';

const steps = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i);

describe('tree', () => {
  test('forward: keeps what is best up to the next checkpoint, and tries its ends anew', () => {
    // The second child of each level is the better one.
    const found = search(tree, root(steps(1, 4), 0), {
      choice: choice({ at: 1, depth: 3, branch: 2 }),
      play: ({ step, n }) => ({ reward: n / 10, checkpoints: steps(step, 4) }),
      atOnce: 2,
    });

    expect(forked(found)).toEqual(['r@1', 'r@1', 'c2@2', 'c2@2', 'c4@3', 'c4@3']);
  });

  test('forward: an earlier rollout that is still the best is gone on with', () => {
    const found = search(tree, root(steps(1, 4), 0), {
      choice: choice({ at: 1, depth: 3, branch: 1, every: 1 }),
      play: ({ step }) => ({ reward: step === 1 ? 0.9 : 0.1, checkpoints: steps(step, 4) }),
    });

    expect(forked(found)).toEqual(['r@1', 'c1@2', 'c1@3']);
  });

  test('forward: ends where the best has no more checkpoints', () => {
    const found = search(tree, root([1, 2], 0), {
      choice: choice({ at: 2, depth: 5, branch: 1 }),
      play: () => ({ reward: 0.5, checkpoints: [2] }),
    });

    expect(forked(found)).toEqual(['r@2']);
  });

  test('backward: undoes one checkpoint more until something is better, then begins at its end', () => {
    // The third step of the root is wrong: from before it, all is well but for the last step.
    const found = search(tree, root(steps(1, 4), 0), {
      choice: choice({ at: 'last', depth: 3, branch: 1 }),
      play: ({ step, rolloutId }) =>
        rolloutId === 'r' && step === 4
          ? { reward: 0, checkpoints: [4] }
          : { reward: step === 3 ? 0.5 : 1, checkpoints: steps(step, 5) },
    });

    // Level 1 forks the root's end; the continuation is as good, so its line is gone back on, in the part of the root.
    expect(forked(found)).toEqual(['r@4', 'r@3', 'c2@5']);
  });

  test('backward: goes back to the first step, and is done then', () => {
    const found = search(tree, root(steps(1, 3), 0), {
      choice: choice({ at: 'last', depth: 10, branch: 1 }),
      play: ({ step }) => ({ reward: 0, checkpoints: [step] }),
    });

    expect(forked(found)).toEqual(['r@3', 'r@2', 'r@1']);
  });

  test('backward: every n-th checkpoint only', () => {
    const found = search(tree, root(steps(1, 5), 0), {
      choice: choice({ at: 'last', depth: 10, branch: 1, every: 2 }),
      play: () => ({ reward: -1 }),
    });

    expect(forked(found)).toEqual(['r@5', 'r@3', 'r@1']);
  });

  test('a level without a score leads on from what was best before', () => {
    const found = search(tree, root(steps(1, 3), 0), {
      choice: choice({ at: 1, depth: 2, branch: 2 }),
      play: ({ n }) => ({ reward: n <= 2 ? null : 1, checkpoints: [] }),
    });

    expect(forked(found)).toEqual(['r@1', 'r@1', 'r@2', 'r@2']);
  });

  test('uncertain: probes are no level', () => {
    let coin = 0;
    const found = search(tree, root([1, 2], 0), {
      choice: choice({ at: 'uncertain', depth: 1, branch: 3 }),
      play: ({ step }) => ({ reward: step === 2 ? coin++ % 2 : 0 }),
      atOnce: 4,
    });

    expect(forked(found)).toEqual(['r@1', 'r@1', 'r@2', 'r@2', 'r@2', 'r@2', 'r@2']);
  });
});
