import { WorkflowFailedError } from '@temporalio/client';
import type { RolloutInput } from '../../contracts/rollout';
import { batch } from '../../workflows';
import { progressQuery } from '../../workflows/messages';
import { DenvError } from '../../denv/errors';
import { FakeDenv, reward } from '../fakes/fake-denv';
import { openTemporal } from '../temporal-env';
import type { RolloutSpec, Running, TemporalEnv } from '../temporal-env';

describe('batch', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  async function declare(batchId: string, count: number, spec: RolloutSpec = {}) {
    const rollouts = await Promise.all(
      Array.from({ length: count }, (_, n) =>
        env.declare({ agent: 'nop', ...spec, batchId, task: { ...spec.task, id: `t${n}` } }),
      ),
    );
    const { ref } = await env.blobs.put(Buffer.from(JSON.stringify(rollouts)));
    return { rollouts, input: { batchId, rolloutsRef: ref, declared: count, concurrency: 2 } };
  }

  const start = (running: Running, input: Parameters<typeof batch>[0]) =>
    env.temporal.client.workflow.start(batch, {
      workflowId: `batch/${input.batchId}`,
      taskQueue: running.taskQueue,
      args: [input],
    });

  test('runs every declared rollout, never more at once than asked for', async () => {
    const denv = new FakeDenv();
    let most = 0;
    denv.handlers.verify = (_request, { version, key }) => {
      most = Math.max(most, denv.sandboxes.size);
      if (key.includes('/t1/')) throw new DenvError('capability_missing', 'no such verifier');
      return reward(version, 0.5);
    };
    const { input, rollouts } = await declare('window', 7);

    await env.withWorker({ denv }, async (running) => {
      const handle = await start(running, input);

      expect(await handle.result()).toEqual({
        batchId: 'window',
        declared: 7,
        scored: 6,
        unscored: 1,
      });
      expect(most).toBe(2);
      expect(denv.effectsOf('create')).toHaveLength(7);
      expect(await handle.query(progressQuery)).toEqual({
        batchId: 'window',
        declared: 7,
        scored: 6,
        unscored: 1,
        started: 7,
        running: 0,
      });
      expect(await env.ledger.results(ids(rollouts))).toHaveLength(7);
    });
  });

  test('asks the ledger first and starts nothing twice', async () => {
    const { input, rollouts } = await declare('again', 3);

    await env.withWorker({}, async (running) => {
      const first = rollouts[0];
      if (!first) throw new Error('no rollout');
      await (await running.start(first)).result();
      await (await start(running, input)).result();
      // Temporal has forgotten nothing here, so a second start by another name must not run anything either.
      const second = await env.temporal.client.workflow.execute(batch, {
        workflowId: 'batch/again/2',
        taskQueue: running.taskQueue,
        args: [input],
      });

      expect(second).toMatchObject({ scored: 3, unscored: 0 });
      expect(running.denv.effectsOf('create')).toHaveLength(3);
    });
  });

  test('finds a rollout that somebody else started, and waits for it', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = async (_request, { key, version, hang }) => {
      if (key.includes('/t0/')) await hang();
      return reward(version, 1);
    };
    const { input, rollouts } = await declare('attach', 2);

    await env.withWorker({ denv }, async (running) => {
      const first = rollouts[0];
      if (!first) throw new Error('no rollout');
      await running.start(first);
      await denv.began('/t0/0/1/verify/0');
      const handle = await start(running, input);
      await denv.began('/t1/0/1/verify/0');
      denv.release('/t0/0/1/verify/0');

      expect(await handle.result()).toMatchObject({ scored: 2 });
      expect(denv.effectsOf('create')).toHaveLength(2);
    });
  });

  test('a rollout that is terminated counts as unscored, class infra, and stops no sibling', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = async (_request, { key, version, hang }) => {
      if (key.includes('/t0/')) await hang();
      return reward(version, 1);
    };
    const { input, rollouts } = await declare('lost', 2);

    await env.withWorker({ denv }, async (running) => {
      const handle = await start(running, input);
      await denv.began('/t0/0/1/verify/0');
      await env.temporal.client.workflow.getHandle(rollouts[0]?.rolloutId ?? '').terminate();

      expect(await handle.result()).toMatchObject({ scored: 1, unscored: 1 });
      expect(await env.ledger.results(ids(rollouts.slice(0, 1)))).toMatchObject([
        { outcome: 'unscored', reward: null, failure: { class: 'infra', type: 'RolloutLost' } },
      ]);
      denv.release('/verify/0');
    });
  });

  test('cancelling it cancels what runs, waits for the clean-up, and begins nothing more', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = async (_request, { version, hang }) => {
      await hang();
      return reward(version, 1);
    };
    const { input, rollouts } = await declare('stop', 5);

    await env.withWorker({ denv }, async (running) => {
      const handle = await start(running, input);
      await Promise.all([denv.began('/t0/0/1/verify/0'), denv.began('/t1/0/1/verify/0')]);
      await handle.cancel();
      const error: unknown = await handle.result().catch((thrown: unknown) => thrown);

      expect(error).toBeInstanceOf(WorkflowFailedError);
      expect((await handle.describe()).status.name).toBe('CANCELLED');
      expect(denv.sandboxes.size).toBe(0);
      expect(denv.effectsOf('create')).toHaveLength(2);
      const results = await env.ledger.results(ids(rollouts));
      expect(results.map(({ failure }) => failure?.class)).toEqual(['cancelled', 'cancelled']);
    });
  });
});

const ids = (rollouts: RolloutInput[]): string[] => rollouts.map(({ rolloutId }) => rolloutId);
