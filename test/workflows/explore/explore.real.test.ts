import type { ExplorationInput, ExploreNode } from '../../../contracts/exploration';
import type { RolloutInput } from '../../../contracts/rollout';
import { DenvError } from '../../../denv/errors';
import { explore } from '../../../workflows';
import { explorationQuery } from '../../../workflows/messages';
import { FakeDenv, reward } from '../../fakes/fake-denv';
import { calls, FakeModel } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { Fakes, RolloutSpec, Running, TemporalEnv } from '../../temporal-env';

describe('explore', () => {
  let env: TemporalEnv;
  let soonFull: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
    soonFull = await openTemporal({ continueAt: 40 });
  });

  afterAll(async () => {
    await env.close();
    await soonFull.close();
  });

  type More = Partial<Omit<ExplorationInput, 'limits' | 'strategy'>> & {
    limits?: Partial<ExplorationInput['limits']>;
    strategy?: Partial<ExplorationInput['strategy']>;
  };

  /** What explores a rollout that ended. */
  async function inputFor(running: Running, root: RolloutInput, more: More = {}) {
    const result = await (await running.start(root)).result();
    const rootNode: ExploreNode = {
      rolloutId: root.rolloutId,
      parentRolloutId: null,
      step: null,
      depth: 0,
      state: result.outcome,
      reward: result.reward,
      checkpoints:
        root.checkpoints === 'never'
          ? Array.from({ length: result.steps }, (_, n) => n + 1)
          : result.checkpoints.map(({ step }) => step),
    };
    const input: ExplorationInput = {
      exploreId: `explore/${root.rolloutId}/1`,
      root,
      rootNode,
      seed: 0,
      ...more,
      strategy: { name: 'flat', count: 3, depth: 2, branch: 2, every: 1, at: 2, ...more.strategy },
      limits: { concurrency: 4, maxContinuations: 100, maxDepth: 10, ...more.limits },
    };
    return input;
  }

  const start = (at: TemporalEnv, { taskQueue }: Running, input: ExplorationInput) =>
    at.temporal.client.workflow.start(explore, {
      workflowId: input.exploreId,
      taskQueue,
      args: [input],
    });

  const say = [calls(['write', { line: 'a' }]), calls(['write', { line: 'b' }]), { text: 'done' }];

  /** Explores a rollout of two steps to the end. */
  async function explored(fakes: Fakes, more: More = {}, spec: RolloutSpec = {}) {
    return env.withWorker({ model: say, ...fakes }, async (running) => {
      const root = await env.declare(spec);
      const input = await inputFor(running, root, more);
      const result = await (await start(env, running, input)).result();
      return { result, input, running };
    });
  }

  const idsOf = (input: ExplorationInput, count: number): string[] =>
    Array.from({ length: count }, (_, n) => `${input.root.rolloutId}/x1.${n + 1}`);

  test('runs each continuation in a fork of its own; the value is the mean of their rewards', async () => {
    const denv = new FakeDenv();
    let verified = 0;
    denv.handlers.verify = (_request, { version }) => reward(version, verified++ / 2);
    const model = new FakeModel(say);

    const { result, input } = await explored({ denv, model });

    const ids = idsOf(input, 3);
    expect(result).toMatchObject({
      exploreId: input.exploreId,
      value: 1,
      best: { reward: 1.5 },
      values: [{ step: 2, value: 1, visits: 3, scored: 3 }],
      scored: 3,
      ended: 'done',
      modelCalls: 6,
    });
    expect(result.rollouts.map(({ rolloutId, step }) => [rolloutId, step])).toEqual(
      ids.map((id) => [id, 2]),
    );
    expect(denv.effectsOf('fork')).toHaveLength(3);
    const results = await env.ledger.results(ids);
    expect(results.map(({ sandboxId }) => denv.logs.get(sandboxId))).toEqual([
      ['a', 'b'],
      ['a', 'b'],
      ['a', 'b'],
    ]);
    expect(results.map(({ lineage }) => lineage.parentRolloutId)).toEqual(
      ids.map(() => input.root.rolloutId),
    );
    expect(model.requests.slice(3).map((r) => r.model.settings.seed)).toEqual(
      expect.arrayContaining([1, 2, 3]),
    );
    expect(denv.sandboxes.size).toBe(0);
  });

  test('no more run at once than it may', async () => {
    const denv = new FakeDenv();
    let most = 0;
    denv.handlers.fork = () => {
      most = Math.max(most, denv.sandboxes.size + 1);
    };

    const { result } = await explored(
      { denv },
      { strategy: { count: 5 }, limits: { concurrency: 2 } },
    );

    expect(result.scored).toBe(5);
    expect(most).toBe(2);
  });

  test('tree: forks a fork, and each leaf is there once', async () => {
    const denv = new FakeDenv();
    let verified = 0;
    denv.handlers.verify = (_request, { version }) => reward(version, verified++ / 10);

    const { result, input } = await explored(
      { denv },
      { strategy: { name: 'tree', at: 1, depth: 2, branch: 2 }, limits: { concurrency: 1 } },
    );

    const root = input.root.rolloutId;
    expect(result.rollouts.map(({ parentRolloutId, step }) => [parentRolloutId, step])).toEqual([
      [root, 1],
      [root, 1],
      [`${root}/x1.2`, 2],
      [`${root}/x1.2`, 2],
    ]);
    expect(result).toMatchObject({
      ended: 'done',
      best: { rolloutId: `${root}/x1.4` },
      values: [{ step: 1, visits: 4, scored: 4 }],
    });
    const [leaf] = await env.ledger.results([`${root}/x1.4`]);
    expect(denv.logs.get(leaf?.sandboxId ?? '')).toEqual(['a', 'b']);
  });

  test('value: what each step is worth', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = (_request, { key, version }) =>
      reward(version, key.includes('/x1.1/') ? 1 : 0);

    const { result } = await explored(
      { denv },
      { strategy: { name: 'value', count: 1, at: 'last' }, limits: { concurrency: 1 } },
    );

    expect(result.values).toEqual([
      { step: 1, value: 1, visits: 1, scored: 1 },
      { step: 2, value: 0, visits: 1, scored: 1 },
    ]);
  });

  test('a continuation that is terminated is unscored and in no mean', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = async (_request, { version, key, hang }) => {
      if (key.includes('/x1.2/')) await hang();
      return reward(version, 0.25);
    };

    await env.withWorker({ denv, model: say }, async (running) => {
      const input = await inputFor(running, await env.declare(), { strategy: { count: 2 } });
      const handle = await start(env, running, input);
      await denv.began('/x1.2/1/verify/0');
      await env.temporal.client.workflow.getHandle(idsOf(input, 2)[1] ?? '').terminate();

      expect(await handle.result()).toMatchObject({
        value: 0.25,
        scored: 1,
        ended: 'done',
        values: [{ visits: 2, scored: 1 }],
      });
    });
  });

  test('a reward that is good enough cancels the others', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = async (_request, { version, key, hang }) => {
      if (!key.includes('/x1.1/') && key.includes('/x1.')) await hang();
      if (key.includes('/x1.1/')) {
        await Promise.all([denv.began('/x1.2/1/verify/0'), denv.began('/x1.3/1/verify/0')]);
      }
      return reward(version, 1);
    };

    const { result, input, running } = await explored({ denv }, { limits: { stopAtReward: 1 } });

    expect(result).toMatchObject({ ended: 'stop_reward', scored: 1, best: { reward: 1 } });
    const results = await env.ledger.results(idsOf(input, 3));
    expect(results.map(({ failure }) => failure?.class ?? null)).toEqual([
      null,
      'cancelled',
      'cancelled',
    ]);
    expect(running.denv.sandboxes.size).toBe(0);
  });

  test.each([
    ['maxContinuations', { maxContinuations: 2 }, 2],
    ['maxTokens', { maxTokens: 30, concurrency: 1 }, 1],
    ['maxDepth', { maxDepth: 1 }, 2],
  ])('stops at its limit %s', async (_name, limits, count) => {
    const strategy = { name: 'tree', at: 1, branch: 2, depth: 3 };

    const { result } = await explored({}, { strategy, limits });

    expect(result).toMatchObject({ ended: 'limit', scored: count });
    expect(result.rollouts).toHaveLength(count);
  });

  test('cancelling it cancels every continuation and leaves no sandbox; the tree can still be seen', async () => {
    const denv = new FakeDenv();
    await env.withWorker({ denv, model: say }, async (running) => {
      const input = await inputFor(running, await env.declare(), { strategy: { count: 2 } });
      denv.handlers.verify = async (_request, { version, hang }) => {
        await hang();
        return reward(version, 1);
      };
      const handle = await start(env, running, input);
      await Promise.all([denv.began('/x1.1/1/verify/0'), denv.began('/x1.2/1/verify/0')]);
      expect(await handle.query(explorationQuery)).toMatchObject({ running: 2, ended: null });
      await handle.cancel();
      await handle.result().catch(() => undefined);

      expect((await handle.describe()).status.name).toBe('CANCELLED');
      expect(denv.sandboxes.size).toBe(0);
      const results = await env.ledger.results(idsOf(input, 2));
      expect(results.map(({ failure }) => failure?.class)).toEqual(['cancelled', 'cancelled']);
      const { nodes, ended, running: open } = await handle.query(explorationQuery);
      expect(nodes.slice(1).map(({ state }) => state)).toEqual(['cancelled', 'cancelled']);
      expect([ended, open]).toEqual(['cancelled', 0]);
    });
  });

  test('goes on in its next run with the same tree, each continuation once', async () => {
    const denv = new FakeDenv();

    await soonFull.withWorker({ denv, model: say }, async (running) => {
      const root = await soonFull.declare();
      const input = await inputFor(running, root, {
        strategy: { name: 'tree', at: 1, branch: 3, depth: 2 },
        limits: { concurrency: 2 },
      });
      const handle = await start(soonFull, running, input);
      const result = await handle.result();

      expect(result).toMatchObject({ ended: 'done', scored: 6 });
      expect(result.rollouts.map(({ rolloutId }) => rolloutId)).toEqual(idsOf(input, 6));
      expect(denv.effectsOf('fork')).toHaveLength(6);
      expect(denv.sandboxes.size).toBe(0);
      const first = soonFull.temporal.client.workflow.getHandle(
        input.exploreId,
        handle.firstExecutionRunId,
      );
      expect((await first.describe()).status.name).toBe('CONTINUED_AS_NEW');
    });
  });

  test('a worker that dies in it costs nothing twice', async () => {
    const denv = new FakeDenv();
    const model = new FakeModel(say);
    let input: ExplorationInput | undefined;
    const taskQueue = `explore-${process.pid}`;
    denv.handlers.verify = async (_request, { version, key, hang }) => {
      if (key.includes('/x1.')) await hang();
      return reward(version, 1);
    };
    await env.withWorker({ denv, model, taskQueue }, async (running) => {
      input = await inputFor(running, await env.declare());
      await start(env, running, input);
      await denv.began('/x1.1/1/verify/0');
    });

    await env.withWorker({ denv, model, taskQueue }, async () => {
      await Promise.all([1, 2, 3].map((n) => denv.began(`/x1.${n}/1/verify/0`)));
      for (const n of [1, 2, 3]) denv.release(`/x1.${n}/1/verify/0`);
      const handle = env.temporal.client.workflow.getHandle(input?.exploreId ?? '');

      expect(await handle.result()).toMatchObject({ scored: 3, ended: 'done' });
      expect(denv.effectsOf('fork')).toHaveLength(3);
      expect(denv.sandboxes.size).toBe(0);
    });
  });

  test('continuations of a HUD task go on by replay, from every step', async () => {
    const task = { prompt: undefined, verifier: undefined, hud: { id: 'add' } };

    const { result, input, running } = await explored(
      {},
      { strategy: { at: 2, count: 2 } },
      { checkpoints: 'never', task },
    );

    expect(result).toMatchObject({ scored: 2, ended: 'done', modelCalls: 4 });
    const ids = idsOf(input, 2);
    const of = (id: string) => running.denv.effectsOf('call').filter((key) => key.startsWith(id));
    expect(of(`${ids[0]}/`)).toEqual([
      `${ids[0]}/1/start`,
      `${ids[0]}/1/tools/0`,
      `${ids[0]}/1/replay/0`,
      `${ids[0]}/1/step/2/call/0`,
      `${ids[0]}/1/grade/hud`,
    ]);
  });

  test.each([
    [{ strategy: { name: 'luck' } }, /there is no strategy luck; there are flat, tree, value/],
    [{ strategy: { at: 9 } }, /has no checkpoint before step 9 to fork/],
  ])('fails by name for what there is not: %j', async (more, message) => {
    await env.withWorker({ model: say }, async (running) => {
      const input = await inputFor(running, await env.declare(), more);
      const handle = await start(env, running, input);

      await expect(handle.result()).rejects.toMatchObject({
        cause: { type: 'InvalidRequest', message: expect.stringMatching(message) },
      });
      expect(running.denv.effectsOf('fork')).toEqual([]);
    });
  });

  test('a continuation that cannot be started does not stop its siblings', async () => {
    const denv = new FakeDenv();
    denv.handlers.fork = (_request, { key }) => {
      if (key.includes('/x1.1/')) throw new DenvError('version_not_found', 'it has expired');
    };

    const { result } = await explored({ denv });

    expect(result).toMatchObject({ scored: 2, ended: 'done' });
    expect(result.rollouts[0]).toMatchObject({ outcome: 'unscored', reward: null });
  });
});
