import { versionIdOf } from '../../../denv/ids';
import {
  cancelSignal,
  checkpointUpdate,
  forkUpdate,
  pauseUpdate,
  resumeUpdate,
} from '../../../workflows/messages';
import { FakeDenv } from '../../fakes/fake-denv';
import { calls } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';
import { hudTask } from './hud-task';

const write = (line: string) => calls(['write', { line }]);

describe('a checkpoint of a running rollout', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  /** Hangs in the first tool call of an attempt, until it is released. */
  function hanging(): FakeDenv {
    const denv = new FakeDenv();
    denv.handlers.call = async ({ method }, { key, hang }) => {
      if (method === 'tools/call' && key.endsWith('/step/1/call/0')) await hang();
      return undefined;
    };
    return denv;
  }

  test('is taken between two steps, once for all who ask, and can be forked while it runs', async () => {
    const denv = hanging();
    const model = [write('a'), write('b'), { text: 'done' }];
    const input = await env.declare({ checkpoints: 'never' });

    await env.withWorker({ denv, model }, async ({ start }) => {
      const handle = await start(input);
      await denv.began('/step/1/call/0');
      const asked = [
        await handle.startUpdate(checkpointUpdate, { waitForStage: 'ACCEPTED' }),
        await handle.startUpdate(forkUpdate, { waitForStage: 'ACCEPTED' }),
      ];
      denv.release('/step/1/call/0');
      const [checkpoint, fork] = await Promise.all(asked.map((update) => update.result()));

      expect(fork).toEqual(checkpoint);
      expect(checkpoint).toMatchObject({
        step: 2,
        version: versionIdOf(`${input.rolloutId}/1/step/2/asked`),
        spent: { tokens: 15, workedS: 1.5 },
      });
      if (!checkpoint) throw new Error('no checkpoint');
      const from = { parentRolloutId: input.rolloutId, ...checkpoint };
      const child = await start({ ...input, rolloutId: `${input.rolloutId}/e2.1`, from });
      const result = await child.result();
      expect(result).toMatchObject({ outcome: 'scored', steps: 3, modelCalls: 2 });
      expect(denv.logs.get(result.sandboxId)).toEqual(['a', 'b']);
      const parent = await handle.result();
      expect(parent.checkpoints).toEqual([checkpoint]);
      expect(denv.logs.get(parent.sandboxId)).toEqual(['a', 'b']);
    });
  });

  test('is answered while the rollout is held', async () => {
    const denv = hanging();
    const input = await env.declare({ checkpoints: 'never' });

    await env.withWorker({ denv, model: [write('a'), { text: 'done' }] }, async ({ start }) => {
      const handle = await start(input);
      await denv.began('/step/1/call/0');
      await handle.executeUpdate(pauseUpdate);
      denv.release('/step/1/call/0');

      const first = await handle.executeUpdate(forkUpdate);
      const again = await handle.executeUpdate(forkUpdate);

      expect(first).toMatchObject({ step: 2 });
      expect(again).toEqual(first);
      expect(denv.effectsOf('snapshot')).toHaveLength(1);
      await handle.executeUpdate(resumeUpdate);
      await handle.result();
    });
  });

  test('of a HUD task has no version: it is refused, and a fork goes on by replay', async () => {
    const denv = hanging();
    const input = await env.declare(hudTask());

    await env.withWorker({ denv, model: [write('a'), { text: '4' }] }, async ({ start }) => {
      const handle = await start(input);
      await denv.began('/step/1/call/0');
      await expect(handle.executeUpdate(checkpointUpdate)).rejects.toMatchObject({
        cause: { message: expect.stringContaining('no version of its sandbox holds it') },
      });
      const asked = await handle.startUpdate(forkUpdate, { waitForStage: 'ACCEPTED' });
      denv.release('/step/1/call/0');

      const point = await asked.result();

      expect(point).toMatchObject({ step: 2, version: '' });
      const from = { parentRolloutId: input.rolloutId, way: 'replay' as const, ...point };
      const child = await start({ ...input, rolloutId: `${input.rolloutId}/e2.1`, from });
      expect(await child.result()).toMatchObject({ outcome: 'scored', modelCalls: 1 });
      expect((await handle.result()).checkpoints).toEqual([]);
    });
  });

  test('is refused of an agent without steps', async () => {
    const denv = new FakeDenv();
    denv.handlers.exec = async (_request, { hang }) => {
      await hang();
      throw new Error('unreachable');
    };
    const input = await env.declare({ agent: 'oracle', task: { solution: [['true']] } });

    await env.withWorker({ denv }, async ({ start }) => {
      const handle = await start(input);
      await denv.began('/solution/0');

      await expect(handle.executeUpdate(checkpointUpdate)).rejects.toMatchObject({
        cause: { message: 'an agent of kind oracle has no steps' },
      });
      await handle.cancel();
      await handle.result().catch(() => undefined);
    });
  });

  test('an agent that stops before it leaves nobody waiting', async () => {
    const denv = hanging();
    const input = await env.declare({ limits: { maxSteps: 1 }, checkpoints: 'never' });

    await env.withWorker({ denv, model: [write('a')] }, async ({ start }) => {
      const handle = await start(input);
      await denv.began('/step/1/call/0');
      const asked = await handle.startUpdate(checkpointUpdate, { waitForStage: 'ACCEPTED' });
      await handle.signal(cancelSignal);
      await handle.result().catch(() => undefined);

      await expect(asked.result()).rejects.toMatchObject({
        cause: { message: "no checkpoint was taken: the agent's work ended before its next step" },
      });
    });
  });
});
