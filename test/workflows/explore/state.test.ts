import type { ExplorationInput } from '../../../contracts/exploration';
import {
  initialState,
  placeOf,
  progressOf,
  resultOf,
  runsOf,
  stepsOf,
  treeOf,
} from '../../../workflows/explore/state';
import { root } from './strategies/tree-of';

// What the state does not look at is left out.
const input = {
  exploreId: 'explore/r/2',
  root: { rolloutId: 'r' },
  rootNode: root([1, 2]),
} as ExplorationInput;

describe('the state of an exploration', () => {
  test.each([
    [[], 0],
    [[4], 1],
    [[1, 2, 3, 4], 1],
    [[3, 6, 9, 10, 11], 2],
    [[1, 5, 6, 20], 2],
  ])('keeps the steps %j in %i runs', (steps, runs) => {
    expect(runsOf(steps)).toHaveLength(runs);
    expect(stepsOf(runsOf(steps))).toEqual(steps);
  });

  test('is the tree, with ids and depths from places alone', () => {
    const state = initialState();
    state.nodes.push([0, 2, 'scored', 0.5, [[2, 9, 1]]], [1, 4, 'running', null, []]);

    const tree = treeOf(input, state);

    expect(tree.map(({ rolloutId, depth }) => [rolloutId, depth])).toEqual([
      ['r', 0],
      ['r/x2.1', 1],
      ['r/x2.2', 2],
    ]);
    expect(tree[2]).toMatchObject({ parentRolloutId: 'r/x2.1', step: 4, state: 'running' });
    expect(tree.map(({ rolloutId }) => placeOf(input, rolloutId))).toEqual([0, 1, 2]);
    expect(placeOf(input, 'r/x1.1')).toBe(-1);
  });

  test('counts what came of a step: forks of forks too, and what has no reward in no mean', () => {
    const state = initialState();
    state.nodes.push(
      [0, 2, 'scored', 0, []],
      [1, 4, 'scored', 1, []],
      [0, 2, 'unscored', null, []],
      [0, 1, 'cancelled', null, []],
    );

    expect(resultOf(input, state)).toMatchObject({
      value: 0.5,
      best: { rolloutId: 'r/x2.2', reward: 1 },
      values: [
        { step: 1, value: null, visits: 1, scored: 0 },
        { step: 2, value: 0.5, visits: 3, scored: 2 },
      ],
      scored: 2,
    });
  });

  test('of ten thousand continuations fits through a history, and what is told of them too', () => {
    const state = initialState();
    for (let n = 0; n < 10_000; n += 1) {
      state.nodes.push([n % 100, 17, 'scored', 0.123456789, [[17, 400, 1]]]);
    }
    const long = { ...input, root: { ...input.root, rolloutId: `rollout/${'b'.repeat(60)}/t/0` } };

    expect(JSON.stringify(state).length).toBeLessThan(1_000_000);
    expect(JSON.stringify(resultOf(long, state)).length).toBeLessThan(2_000_000);
    const progress = progressOf(long, state);
    expect(JSON.stringify(progress).length).toBeLessThan(2_000_000);
    expect(progress).toMatchObject({ more: 6000, running: 0 });
    expect(progress.nodes).toHaveLength(4001);
  });
});
