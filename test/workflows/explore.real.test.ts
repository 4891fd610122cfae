import { explore } from '../../workflows';
import { FakeDenv, reward } from '../fakes/fake-denv';
import { calls, FakeModel } from '../fakes/fake-model';
import { openTemporal } from '../temporal-env';
import type { Running, TemporalEnv } from '../temporal-env';

describe('explore', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  /** A rollout that ended, and K continuations of its second step. */
  async function declare(running: Running, count: number) {
    const input = await env.declare();
    const parent = await (await running.start(input)).result();
    const checkpoint = parent.checkpoints[1];
    if (!checkpoint) throw new Error('no checkpoint');
    const from = { parentRolloutId: input.rolloutId, ...checkpoint };
    const rollouts = Array.from({ length: count }, (_, n) => ({
      ...input,
      rolloutId: `${input.rolloutId}/e${n}`,
      index: n,
      from,
    }));
    return { parent, rollouts, exploreId: `explore/${input.rolloutId}` };
  }

  const model = () =>
    new FakeModel([
      calls(['write', { line: 'a' }]),
      calls(['write', { line: 'b' }]),
      { text: 'done' },
    ]);

  test('runs each continuation in a fork of its own; the value is the mean of their rewards', async () => {
    const denv = new FakeDenv();
    let verified = 0;
    denv.handlers.verify = (_request, { version }) => reward(version, verified++ / 2);

    await env.withWorker({ denv, model: model() }, async (running) => {
      const { rollouts, exploreId } = await declare(running, 3);

      const result = await env.temporal.client.workflow.execute(explore, {
        workflowId: exploreId,
        taskQueue: running.taskQueue,
        args: [{ exploreId, rollouts }],
      });

      expect(result).toMatchObject({ exploreId, value: 1, scored: 3 });
      expect(result.rollouts.map(({ rolloutId }) => rolloutId)).toEqual(
        rollouts.map(({ rolloutId }) => rolloutId),
      );
      expect(denv.effectsOf('fork')).toHaveLength(3);
      const results = await env.ledger.results(rollouts.map(({ rolloutId }) => rolloutId));
      expect(results.map(({ sandboxId }) => denv.logs.get(sandboxId))).toEqual([
        ['a', 'b'],
        ['a', 'b'],
        ['a', 'b'],
      ]);
      expect(denv.sandboxes.size).toBe(0);
    });
  });

  test('a continuation that is not scored counts in no mean', async () => {
    const denv = new FakeDenv();
    denv.handlers.fork = (_request, { key }) => {
      if (key.includes('/e1/')) throw new Error('no room');
    };

    await env.withWorker({ denv, model: model() }, async (running) => {
      const { rollouts, exploreId } = await declare(running, 2);
      const input = rollouts.map((rollout) => ({ ...rollout, limits: { maxAttempts: 1 } }));
      denv.handlers.verify = (_request, { version }) => reward(version, 0.25);

      const handle = await env.temporal.client.workflow.start(explore, {
        workflowId: exploreId,
        taskQueue: running.taskQueue,
        args: [{ exploreId, rollouts: input }],
      });
      await denv.began('/e1/1/create');
      await env.temporal.client.workflow.getHandle(rollouts[1]?.rolloutId ?? '').terminate();

      expect(await handle.result()).toMatchObject({ value: 0.25, scored: 1 });
    });
  });

  test('cancelling it cancels every continuation and leaves no sandbox', async () => {
    const denv = new FakeDenv();

    await env.withWorker({ denv, model: model() }, async (running) => {
      const { rollouts, exploreId } = await declare(running, 2);
      denv.handlers.verify = async (_request, { version, hang }) => {
        await hang();
        return reward(version, 1);
      };
      const handle = await env.temporal.client.workflow.start(explore, {
        workflowId: exploreId,
        taskQueue: running.taskQueue,
        args: [{ exploreId, rollouts }],
      });
      await Promise.all([denv.began('/e0/1/verify/0'), denv.began('/e1/1/verify/0')]);
      await handle.cancel();
      await handle.result().catch(() => undefined);

      expect((await handle.describe()).status.name).toBe('CANCELLED');
      expect(denv.sandboxes.size).toBe(0);
      const results = await env.ledger.results(rollouts.map(({ rolloutId }) => rolloutId));
      expect(results.map(({ failure }) => failure?.class)).toEqual(['cancelled', 'cancelled']);
    });
  });
});
