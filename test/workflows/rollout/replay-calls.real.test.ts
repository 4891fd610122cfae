import { createDocuments } from '../../../rollouts/documents';
import * as chain from '../../../rollouts/trajectory/chain';
import type { Continuation, RolloutInput } from '../../../contracts/rollout';
import { DenvError } from '../../../denv/errors';
import { FakeDenv, textReply } from '../../fakes/fake-denv';
import type { FakeHandlers } from '../../fakes/fake-denv';
import { calls, FakeModel } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { RolloutSpec, Running, TemporalEnv } from '../../temporal-env';
import { hudTask } from './hud-task';

async function headBefore(env: TemporalEnv, head: string, step: number): Promise<string> {
  const documents = createDocuments(env.blobs);
  return chain.headBefore(documents, await chain.readLinks(documents, head), step);
}

const spent = { tokens: 45, costUsd: 0, workedS: 3 };

describe('a continuation by replay', () => {
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

  const say = [
    calls(['write', { line: 'a' }], ['look', {}]),
    calls(['write', { line: 'b' }]),
    { text: 'done' },
  ];

  /** A rollout that ended, and the input of a continuation of it that replays it to before a step. */
  async function continuation(
    { start }: Running,
    spec: RolloutSpec = {},
    more: Partial<Continuation> = {},
    at = env,
  ): Promise<RolloutInput> {
    const parent = await at.declare(spec);
    const result = await (await start(parent)).result();
    const { step = 3 } = more;
    const from: Continuation = {
      parentRolloutId: parent.rolloutId,
      step,
      version: '',
      trajectory: await headBefore(at, result.trajectory, step),
      way: 'replay',
      spent,
      ...more,
    };
    return { ...parent, rolloutId: `${parent.rolloutId}/e3.1`, from };
  }

  const keysOf = (denv: FakeDenv, id: string): string[] =>
    denv.effects
      .filter((effect) => effect.includes(` ${id}/`))
      .map((effect) => effect.replace(`${id}/`, ''));

  test('starts the task anew, makes the recorded calls again and asks no model for them', async () => {
    const denv = new FakeDenv();
    const model = new FakeModel(say);

    await env.withWorker({ denv, model }, async (running) => {
      const child = await continuation(running, { task: { setup: [['true']] } });
      const asked = model.requests.length;

      const result = await (await running.start(child)).result();

      expect(result).toMatchObject({ outcome: 'scored', steps: 3, modelCalls: 1, toolCalls: 0 });
      expect(model.requests.length - asked).toBe(1);
      expect(denv.logs.get(result.sandboxId)).toEqual(['true', 'a', 'b']);
      expect(keysOf(denv, child.rolloutId)).toEqual([
        'create 1/create',
        'call 1/tools/0',
        'exec 1/setup/0',
        'call 1/replay/0',
        'call 1/replay/1',
        'call 1/replay/2',
        'verify 1/verify/0',
      ]);
      expect(result.workedS).toBe(spent.workedS + 1);
      expect(result.lineage).toMatchObject({
        parentRolloutId: child.from?.parentRolloutId,
        step: 3,
      });
    });
  });

  test('of a HUD task: started once in the new sandbox, graded by its own environment', async () => {
    const denv = new FakeDenv();

    await env.withWorker({ denv, model: say }, async (running) => {
      const child = await continuation(running, hudTask(), { step: 2 });

      const result = await (await running.start(child)).result();

      expect(result).toMatchObject({ outcome: 'scored', reward: 1, modelCalls: 2 });
      expect(keysOf(denv, child.rolloutId)).toEqual([
        'create 1/create',
        'call 1/start',
        'call 1/tools/0',
        'call 1/replay/0',
        'call 1/replay/1',
        'call 1/step/2/call/0',
        'call 1/grade/hud',
      ]);
      expect(denv.sandboxes.size).toBe(0);
    });
  });

  test.each<[string, FakeHandlers['call'], string]>([
    [
      'another text',
      () => textReply('a\nother'),
      'step 1, call look was answered differently: line 2 was not there, and is "other"',
    ],
    [
      'an error',
      () => ({
        result: { isError: true, content: [{ type: 'text', text: 'no' }] },
        timedOut: false,
        durationS: 0,
      }),
      'step 1, call look was answered differently: no error then (a), an error now (no)',
    ],
  ])(
    'ends, and is not tried again, where a call is answered by %s',
    async (_what, answer, message) => {
      const denv = new FakeDenv();
      denv.handlers.call = (request, context) =>
        context.key.endsWith('/replay/1') ? answer(request, context) : undefined;

      await env.withWorker({ denv, model: say }, async (running) => {
        const child = await continuation(running);

        const result = await (await running.start(child)).result();

        expect(result).toMatchObject({
          outcome: 'unscored',
          reward: null,
          failure: { class: 'infra', type: 'ReplayDiverged', stage: 'setup', message },
          modelCalls: 0,
        });
        expect(result.attempts).toHaveLength(1);
        expect(denv.sandboxes.size).toBe(0);
      });
    },
  );

  test('calls that were never made, or rolled back, are not made', async () => {
    const denv = new FakeDenv();
    const model = [
      calls(['write', null], ['write', { line: 'a' }]),
      calls(['checkpoint', { name: 'x' }], ['write', { line: 'wrong' }]),
      calls(['rollback', { name: 'x' }], ['write', { line: 'b' }]),
      { text: 'done' },
    ];

    await env.withWorker({ denv, model }, async (running) => {
      const child = await continuation(running, { task: { checkpointTools: true } }, { step: 4 });

      const result = await (await running.start(child)).result();

      expect(result).toMatchObject({ outcome: 'scored', failure: null });
      expect(denv.logs.get(result.sandboxId)).toEqual(['a', 'b']);
    });
  });

  test('a call whose outcome was never known cannot be made again', async () => {
    const denv = new FakeDenv();
    denv.handlers.call = (_request, { key }) => {
      if (key.endsWith('/1/step/2/call/0')) throw new DenvError('outcome_unknown', 'it died');
      return undefined;
    };

    await env.withWorker({ denv, model: say }, async (running) => {
      const child = await continuation(running, { onOutcomeUnknown: 'report' });

      expect(await (await running.start(child)).result()).toMatchObject({
        failure: {
          type: 'ReplayDiverged',
          message: expect.stringContaining('outcome was unknown'),
        },
      });
    });
  });

  test('a long one goes on in the next run, each call once', async () => {
    const denv = new FakeDenv();
    const many = calls(
      ...Array.from({ length: 20 }, (): [string, Record<string, unknown>] => ['look', {}]),
    );
    const model = new FakeModel((_request, turn) => (turn < 12 ? many : { text: 'done' }));

    await soonFull.withWorker({ denv, model }, async (running) => {
      const child = await continuation(running, {}, { step: 13 }, soonFull);

      const result = await (await running.start(child)).result();

      expect(result).toMatchObject({ outcome: 'scored', modelCalls: 1 });
      const replayed = denv.effectsOf('call').filter((key) => key.includes('/replay/'));
      expect(replayed).toHaveLength(240);
      expect(denv.effectsOf('create')).toHaveLength(2);
    });
  });
});
