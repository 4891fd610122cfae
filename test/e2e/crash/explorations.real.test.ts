import { join } from 'node:path';
import { awaitExploration, startExploration } from '../../../client/api/explore';
import { cancelExploration } from '../../../client/api/rollouts';
import { forkChildKey, sandboxIdOf } from '../../../denv/ids';
import { rolloutIdOf } from '../crash-stack';
import { done, exec, gatedExec, gatedWork, slowController, work } from '../crash-tasks';
import { until } from '../until';
import { useCrashStack } from '../use-crash-stack';
import { unharmed } from './expected';

const stack = useCrashStack();

/** Starts `count` continuations from before a step, and waits until they have their ids. */
async function goOnFrom(rolloutId: string, step: number, count: number, stopAtReward?: number) {
  const { ledger } = stack.rollouts;
  const continuations = async () =>
    (await ledger.rollouts({ parentRolloutId: rolloutId })).map((row) => row.rolloutId);
  const before = new Set(await continuations());
  const { exploreId } = await startExploration(stack.rollouts, {
    rolloutId,
    strategy: { name: 'flat', count, depth: 1, branch: 1, every: 1, at: step },
    limits: {
      concurrency: count,
      maxContinuations: count,
      maxDepth: 1,
      ...(stopAtReward === undefined ? {} : { stopAtReward }),
    },
    changes: {},
    priceFile: join(stack.home, 'prices.json'),
  });
  let rolloutIds: string[] = [];
  await until(`${count} continuations of ${rolloutId}`, async () => {
    rolloutIds = (await continuations()).filter((id) => !before.has(id));
    return rolloutIds.length === count;
  });
  return { exploreId, rolloutIds };
}

describe('an exploration', () => {
  it('ends each continuation once when servers are killed in the forks and in the calls', async () => {
    const batch = await stack.start('parent', [
      {
        id: 'task',
        environment: slowController,
        effects: 3,
        replies: [work, gatedWork, work, done],
      },
    ]);
    const parent = rolloutIdOf('parent', 'task');
    await stack.effects(parent, 2);
    expect(await stack.finish(batch)).toMatchObject({ task: unharmed(parent, 3, 4) });
    const { exploreId, rolloutIds } = await goOnFrom(parent, 2, 3);
    for (const id of rolloutIds) await stack.creating(id);

    await stack.killAndAwait('denv');
    const forkOf = (id: string) => sandboxIdOf(forkChildKey(`${id}/1/create`, 0));
    // What the parent wrote before the fork is there, beside the continuation's own.
    for (const id of rolloutIds) await stack.effects(id, 2, forkOf(id));
    await stack.killAndAwait('worker');

    const results = await stack.finishRollouts(rolloutIds);
    for (const [n, id] of rolloutIds.entries()) {
      expect(results[n]).toMatchObject({
        ...unharmed(id, 3, 3),
        sandboxId: forkOf(id),
        lineage: { parentRolloutId: parent, step: 2, restored: [] },
      });
    }
    const requests = 4 + results.reduce((sum, r) => sum + r.modelCalls + r.modelCallsReissued, 0);
    expect(batch.model.stats().requests).toBe(requests);
    expect(await awaitExploration(stack.rollouts, exploreId)).toMatchObject({
      scored: 3,
      value: 1,
      ended: 'done',
    });
  });

  it('stops its continuations when it is cancelled and the worker is killed over that', async () => {
    const parent = rolloutIdOf('cancelled', 'task');
    const batch = await stack.start('cancelled', [
      { id: 'task', effects: 2, replies: [exec, gatedExec, done] },
    ]);
    await stack.effects(parent, 2);
    await stack.finish(batch);
    const { exploreId, rolloutIds } = await goOnFrom(parent, 2, 2);
    for (const id of rolloutIds) {
      await stack.effects(id, 2, sandboxIdOf(forkChildKey(`${id}/1/create`, 0)));
    }

    await cancelExploration(stack.rollouts, exploreId);
    await stack.killAndAwait('worker');

    await until('all have ended', async () => {
      return (await stack.rollouts.ledger.results(rolloutIds)).length === 2;
    });
    await until('no sandbox', async () => (await stack.sandboxes(rolloutIds)).length === 0);
    expect(await stack.rollouts.ledger.results(rolloutIds)).toMatchObject(
      rolloutIds.map(() => ({ reward: null, failure: { class: 'cancelled' } })),
    );
  });
});

describe('an exploration that stops at a reward', () => {
  it('stops those that still run, also when the worker is killed, and leaves no sandbox', async () => {
    const batchId = 'losers';
    const parent = rolloutIdOf(batchId, 'task');
    const batch = await stack.start(batchId, [
      { id: 'task', effects: 2, replies: [exec, gatedExec, done] },
    ]);
    await stack.effects(parent, 2);
    await stack.finish(batch);
    const { exploreId, rolloutIds } = await goOnFrom(parent, 2, 3, 1);
    const sandboxOf = (id: string) => sandboxIdOf(forkChildKey(`${id}/1/create`, 0));
    for (const id of rolloutIds) await stack.effects(id, 2, sandboxOf(id));
    const winner = rolloutIds[1] ?? '';
    const open = { argv: ['touch', '/workspace/go'], timeoutS: 10 };

    const back = stack.killAndAwait('worker');
    await stack.rollouts.denv.exec(sandboxOf(winner), open, { key: `gate/${winner}` });
    await back;

    const explored = await awaitExploration(stack.rollouts, exploreId);
    expect(explored).toMatchObject({
      ended: 'stop_reward',
      scored: 1,
      best: { rolloutId: winner, reward: 1 },
    });
    expect(await stack.rollouts.ledger.results(rolloutIds)).toMatchObject(
      rolloutIds.map((id) =>
        id === winner
          ? { outcome: 'scored', reward: 1 }
          : { outcome: 'unscored', reward: null, failure: { class: 'cancelled' } },
      ),
    );
    await until('no sandbox', async () => (await stack.sandboxes(rolloutIds)).length === 0);
  });
});
