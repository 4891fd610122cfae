import type { RolloutSummary } from '../../contracts/batch';
import { rolloutTable, surprises, type DemoReport } from '../../demo/demo';
import { killSurprises, type KillReport } from '../../demo/kill-demo';

const summary = (task: string, reward: number | null): RolloutSummary => ({
  rolloutId: `rollout/b/${task}/0`,
  task,
  index: 0,
  outcome: reward === null ? 'unscored' : 'scored',
  reward,
  rewards: {},
  failure: null,
  stopReason: 'done',
  steps: 2,
  attempts: 1,
  modelCalls: 2,
  modelCallsReissued: 0,
  toolCalls: 1,
  usage: { promptTokens: 1, completionTokens: 1, costUsd: null },
  sandboxId: 'sb_1',
});

const batch = { batchId: 'b', declared: 1, scored: 1, unscored: 0, meanReward: 1 };

describe('surprises of the demo', () => {
  const asItShouldBe: DemoReport = {
    ...batch,
    rollouts: [
      summary('restart-web', 1),
      summary('stuck-orders', 1),
      summary('full-disk', 1),
      summary('guess-carrier', 0),
      summary('tune-cache', 0.75),
      summary('linked-report', 0),
      summary('broken-verifier', null),
    ],
    explore: {
      exploreId: 'e',
      parentRolloutId: 'rollout/b/restart-web/0',
      step: 3,
      value: 0.5,
      rollouts: [0.5, 0, 1].map((reward) => summary('restart-web', reward)),
    },
    sandboxesLeft: 0,
  };

  test('are none when all came out as it should', () => {
    expect(surprises(asItShouldBe)).toEqual([]);
  });

  test('name what did not: a crashed verifier that gave 0, continuations, sandboxes', () => {
    const explore = { ...asItShouldBe.explore, rollouts: [summary('restart-web', null)] };
    const rollouts = [...asItShouldBe.rollouts.slice(0, -1), summary('broken-verifier', 0)];

    expect(surprises({ ...asItShouldBe, rollouts, explore, sandboxesLeft: 2 })).toEqual([
      'rollout/b/broken-verifier/0 has reward 0',
      'the continuations have rewards none, and not 0, 0.5, 1',
      '2 sandboxes are left',
    ]);
  });

  test('name each task that the report lacks', () => {
    const [, ...others] = asItShouldBe.rollouts;

    expect(surprises({ ...asItShouldBe, rollouts: others })).toEqual([
      'the report has no rollout of task restart-web',
    ]);
    expect(surprises({ ...asItShouldBe, rollouts: [] })).toHaveLength(7);
  });
});

describe('surprises of the demo with kills', () => {
  const asItShouldBe: KillReport = {
    ...batch,
    rollouts: [summary('slow-exec', 1)],
    modelCallsRepeated: 0,
    modelCallsReissued: 1,
    toolEffectsRepeated: 0,
    sandboxesLeft: 0,
    kills: [
      { rolloutId: 'r', killed: 'worker', during: 'a model call', pid: 1, backS: 1 },
      { rolloutId: 's', killed: 'denv', during: 'an exec', pid: 2, backS: 1 },
    ],
  };

  test('are none when the kills cost what they may', () => {
    expect(killSurprises(asItShouldBe)).toEqual([]);
  });

  test.each([
    [{ modelCallsRepeated: 1 }, 'modelCallsRepeated is 1'],
    [{ toolEffectsRepeated: 2 }, 'toolEffectsRepeated is 2'],
    [{ sandboxesLeft: 3 }, 'sandboxesLeft is 3'],
    [{ modelCallsReissued: 2 }, 'modelCallsReissued is 2, for 1 kills'],
    [{ rollouts: [summary('slow-exec', 0)] }, 'rollout/b/slow-exec/0 has reward 0'],
  ])('name %j', (part, message) => {
    expect(killSurprises({ ...asItShouldBe, ...part })).toEqual([message]);
  });
});

test('the table names continuations by their step and number', () => {
  const one = { ...summary('restart-web', 1), rolloutId: 'rollout/b/restart-web/0/e3.2' };

  expect(rolloutTable([one])[1]).toMatch(/^restart-web\/0\/e3\.2 +scored +1 +done +2 +sb_1$/);
});
