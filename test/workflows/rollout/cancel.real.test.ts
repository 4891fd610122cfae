import { WorkflowFailedError } from '@temporalio/client';
import type { WorkflowHandle } from '@temporalio/client';
import { cancelSignal } from '../../../workflows/messages';
import { FakeDenv, reward } from '../../fakes/fake-denv';
import { calls } from '../../fakes/fake-model';
import type { Say } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { RolloutSpec, TemporalEnv } from '../../temporal-env';

/** Holds every effect whose key ends so, until it is cancelled. */
function holding(keyEnd: string): FakeDenv {
  const denv = new FakeDenv();
  const hold = async ({ key, hang }: { key: string; hang: () => Promise<unknown> }) => {
    if (key.endsWith(keyEnd)) await hang();
  };
  denv.handlers = {
    create: (_request, context) => hold(context),
    exec: async (_request, context) => {
      await hold(context);
      const killed = { exitCode: null, stdout: '', stderr: '', truncated: false };
      return { ...killed, timedOut: false, durationS: 1 };
    },
    call: async (_request, context) => {
      await hold(context);
      return undefined;
    },
    verify: async (_request, context) => {
      await hold(context);
      return reward(context.version, 1);
    },
  };
  return denv;
}

const stages: [string, string, RolloutSpec, Say[]][] = [
  ['create', '/1/create', { agent: 'nop' }, []],
  ['ready', '/1/tools/0', {}, []],
  ['setup', '/1/setup/0', { agent: 'nop', task: { setup: [['true']] } }, []],
  ['loop', '/1/step/1/call/0', {}, [calls(['write', { line: 'a' }])]],
  ['verify', '/1/verify/0', { agent: 'nop' }, []],
];

describe('a cancelled rollout', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  test.each(stages)(
    'at %s: cancels the operation, records, deletes the sandbox, and ends as cancelled',
    async (stage, keyEnd, spec, model) => {
      const denv = holding(keyEnd);
      const input = await env.declare(spec);

      await env.withWorker({ denv, model }, async ({ start }) => {
        const handle = await start(input);
        await denv.began(keyEnd);
        await handle.cancel();

        expect(await endOf(handle)).toBe('CANCELLED');
        expect(denv.cancelled).toEqual([`${input.rolloutId}${keyEnd}`]);
        expect(denv.sandboxes.size).toBe(0);
        expect(denv.deleted).toHaveLength(1);
        expect(await env.ledger.results([input.rolloutId])).toMatchObject([
          {
            outcome: 'unscored',
            reward: null,
            stopReason: 'cancelled',
            failure: { class: 'cancelled', stage },
          },
        ]);
      });
    },
  );

  test('in a tool call, the reply that asked for it stays counted', async () => {
    const denv = holding('/1/step/1/call/1');
    const model = [calls(['write', { line: 'a' }], ['write', { line: 'b' }])];
    const input = await env.declare();

    await env.withWorker({ denv, model }, async ({ start }) => {
      const handle = await start(input);
      await denv.began('/1/step/1/call/1');
      await handle.cancel();

      expect(await endOf(handle)).toBe('CANCELLED');
      expect(await env.ledger.results([input.rolloutId])).toMatchObject([
        { steps: 1, modelCalls: 1, toolCalls: 1, workedS: 1.5, usage: { promptTokens: 10 } },
      ]);
    });
  });

  test('by signal, in the middle of a model call, ends the same way', async () => {
    const input = await env.declare();

    await env.withWorker({ model: ['hang'] }, async ({ start, model, denv }) => {
      const handle = await start(input);
      while (model.requests.length === 0) await new Promise((done) => setTimeout(done, 20));
      await handle.signal(cancelSignal);

      expect(await endOf(handle)).toBe('CANCELLED');
      expect(denv.sandboxes.size).toBe(0);
      expect(await env.ledger.results([input.rolloutId])).toMatchObject([
        { failure: { class: 'cancelled' } },
      ]);
    });
  });
});

async function endOf(handle: WorkflowHandle): Promise<string> {
  const error: unknown = await handle.result().catch((thrown: unknown) => thrown);
  if (!(error instanceof WorkflowFailedError)) throw new Error('it did not fail');
  return (await handle.describe()).status.name;
}
