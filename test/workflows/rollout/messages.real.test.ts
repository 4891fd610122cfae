import { WorkflowUpdateFailedError } from '@temporalio/client';
import { messageUpdate, pauseUpdate, resumeUpdate, statusQuery } from '../../../workflows/messages';
import { FakeDenv, reward } from '../../fakes/fake-denv';
import { calls, FakeModel } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';

const write = calls(['write', { line: 'a' }]);

/** Holds the first tool call until a test lets it go. */
function holding(): FakeDenv {
  const denv = new FakeDenv();
  denv.handlers.call = async ({ method }, { key, hang }) => {
    if (method === 'tools/call' && key.endsWith('/step/1/call/0')) await hang();
    return undefined;
  };
  return denv;
}

describe('messages to a rollout', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  test('pause holds it before the next model call and renews its lease; resume lets it go on', async () => {
    const denv = holding();
    const input = await env.declare({ leaseS: 5 });

    await env.withWorker({ denv, model: [write, { text: 'x' }] }, async ({ start, model }) => {
      const handle = await start(input);
      await denv.began('/step/1/call/0');
      expect(await handle.executeUpdate(pauseUpdate)).toMatchObject({
        paused: true,
        stage: 'loop',
      });
      const renewed = denv.began(`renew ${(await handle.query(statusQuery)).sandboxId}`);
      denv.release('/step/1/call/0');
      await renewed;
      await renewedAgain(denv);
      expect(model.requests).toHaveLength(1);

      await handle.executeUpdate(resumeUpdate);
      const result = await handle.result();

      expect(result).toMatchObject({ outcome: 'scored', steps: 2, stopReason: 'done' });
      expect(await handle.query(statusQuery)).toMatchObject({
        stage: 'ended',
        outcome: 'scored',
        reward: 1,
      });
    });
  });

  test('message is shown to the agent before its next model call', async () => {
    const denv = holding();
    const input = await env.declare();

    await env.withWorker({ denv, model: [write, { text: 'x' }] }, async ({ start, model }) => {
      const handle = await start(input);
      await denv.began('/step/1/call/0');
      expect(await handle.executeUpdate(messageUpdate, { args: [{ text: 'try port 80' }] })).toBe(
        1,
      );
      denv.release('/step/1/call/0');
      await handle.result();

      expect(model.requests[1]?.messages.slice(-2)).toMatchObject([
        { role: 'tool' },
        { role: 'user', parts: [{ type: 'text', text: 'try port 80' }] },
      ]);
    });
  });

  test('a message that comes while the model says its last word is answered first', async () => {
    const denv = new FakeDenv();
    const input = await env.declare();
    let wake: () => void = () => undefined;
    const asked = new Promise<void>((resolve) => (wake = resolve));
    let release: () => void = () => undefined;
    const released = new Promise<void>((resolve) => (release = resolve));
    const model = new FakeModel([{ text: 'done' }, { text: 'done now' }]);
    const complete = model.complete.bind(model);
    model.complete = async (request, options) => {
      wake();
      await released;
      return complete(request, options);
    };

    await env.withWorker({ denv, model }, async ({ start }) => {
      const handle = await start(input);
      await asked;
      await handle.executeUpdate(messageUpdate, { args: [{ text: 'not yet' }] });
      release();

      expect(await handle.result()).toMatchObject({ steps: 2, stopReason: 'done' });
    });
  });

  test.each([
    [{ text: ' ' }, 'a message needs text'],
    [{ text: 'x'.repeat(16_001) }, 'a message has at most 16000 characters'],
  ])('refuses the message %#', async (message, why) => {
    const denv = holding();
    const input = await env.declare();

    await env.withWorker({ denv, model: [write, { text: 'x' }] }, async ({ start }) => {
      const handle = await start(input);
      await denv.began('/step/1/call/0');
      const refused = handle.executeUpdate(messageUpdate, { args: [message] });
      const error: unknown = await refused.catch((thrown: unknown) => thrown);
      denv.release('/step/1/call/0');
      await handle.result();

      expect(error).toBeInstanceOf(WorkflowUpdateFailedError);
      expect((error as WorkflowUpdateFailedError).cause?.message).toBe(why);
    });
  });

  test('refuses a pause once the agent’s work is over', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = async (_request, { hang, version }) => {
      await hang();
      return reward(version, 1);
    };
    const input = await env.declare({ agent: 'nop' });

    await env.withWorker({ denv }, async ({ start }) => {
      const handle = await start(input);
      await denv.began('/verify/0');
      const error: unknown = await handle.executeUpdate(pauseUpdate).catch((e: unknown) => e);
      denv.release('/verify/0');
      await handle.result();

      expect((error as WorkflowUpdateFailedError).cause?.message).toBe(
        "the agent's work is over: the rollout is at verify",
      );
    });
  });
});

/** The lease is renewed by a timer of its own, not once. */
async function renewedAgain(denv: FakeDenv): Promise<void> {
  const before = denv.effectsOf('renew').length;
  await new Promise<void>((resolve) => {
    denv.handlers.renew = () => {
      if (denv.effectsOf('renew').length > before) resolve();
    };
  });
}
