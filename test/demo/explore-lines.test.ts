import type { ExploreReport } from '../../demo/explore-demo';
import { exploreLines, exploreSurprises } from '../../demo/explore-lines';

const wrong = { step: 2, did: 'go stair', value: 0.125, visits: 8, drop: 0.125 };
const report: ExploreReport = {
  root: { rolloutId: 'rollout/maze/way-out/0', reward: 0, modelCalls: 5 },
  value: {
    exploreId: 'explore/1',
    steps: [{ step: 1, did: 'go corridor', value: 0.2, visits: 8, drop: 0.075 }, wrong],
    wrong,
    modelCalls: 107,
  },
  tree: { exploreId: 'explore/2', ended: 'stop_reward', rollouts: 24, best: 1, modelCalls: 61 },
  independent: { batchId: 'tries', rollouts: 81, best: 1, modelCalls: 393 },
  ratio: 66 / 398,
  sandboxesLeft: 0,
  versionsKept: 300,
};

describe('exploreLines', () => {
  test('names the step that went wrong, and both bills', () => {
    const text = exploreLines(report, 'bin/rollouts').join('\n');

    expect(text).toContain('step 2 (go stair) went wrong: the value falls from 0.125 to 0.000');
    expect(text).toMatch(/tree search +24 +1 +61/);
    expect(text).toMatch(/independent rollouts +81 +1 +393/);
    expect(text).toContain('need 17 % of the model calls');
  });
});

describe('exploreSurprises', () => {
  test('finds none in a search that is as it should be', () => {
    expect(exploreSurprises(report)).toEqual([]);
  });

  test.each<[Partial<ExploreReport>, string]>([
    [{ ratio: 0.51 }, 'the search needs 0.51 of the model calls of independent rollouts'],
    [{ tree: { ...report.tree, best: 0.8 } }, 'the tree search came to 0.8'],
    [{ independent: { ...report.independent, best: 0.6 } }, '81 independent rollouts came to 0.6'],
    [{ sandboxesLeft: 2 }, '2 sandboxes are left'],
    [{ value: { ...report.value, wrong: { ...wrong, drop: 0 } } }, 'no step has lost anything'],
    [
      { root: { ...report.root, reward: 1 } },
      'the root has reward 1, so there is nothing to search for',
    ],
  ])('names what is not: %j', (other, message) => {
    expect(exploreSurprises({ ...report, ...other })).toEqual([message]);
  });
});
