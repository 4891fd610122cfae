import { setTimeout as sleep } from 'node:timers/promises';
import { CancelledFailure } from '@temporalio/activity';
import { activity, held } from '../../../activities/support/heartbeat';
import { FakeDenv } from '../../fakes/fake-denv';
import { environmentOf } from '../on-fakes';

/** Runs a command that never ends and lets go of it in one of Temporal's ways. */
async function letGo(details: object) {
  const denv = new FakeDenv();
  denv.handlers.exec = async (_request, { hang }) => {
    await hang();
    throw new Error('unreachable');
  };
  const { id } = await denv.client.createSandbox({ image: 'host' }, { key: 'k/create' });
  const environment = environmentOf();
  const key = 'k/exec';
  const effect = activity((_input: void, signal: AbortSignal) =>
    held(denv.client, null, key, () => denv.client.exec(id, { argv: ['sleep'] }, { key, signal })),
  );
  const outcome = environment.run(effect).catch((error: unknown) => error);
  await denv.began('k/exec');
  environment.cancel('CANCELLED' as never, details as never);
  return { error: await outcome, denv };
}

describe('an activity that waits', () => {
  test('cancels the operation when the rollout is cancelled', async () => {
    const { error, denv } = await letGo({ cancelRequested: true });

    expect(error).toBeInstanceOf(CancelledFailure);
    expect(denv.cancelled).toEqual(['k/exec']);
  });

  test.each([['workerShutdown'], ['timedOut'], ['notFound']])(
    'merely lets go of it on %s',
    async (why) => {
      const { error, denv } = await letGo({ [why]: true });

      expect(error).toMatchObject({ type: 'WorkerShutdown', nonRetryable: false });
      expect(denv.cancelled).toEqual([]);
    },
  );

  test.each([
    [4000, 'every 2 s', 2000],
    [60_000, 'every 10 s', 10_000],
    [undefined, 'every 10 s', 10_000],
  ])('with a heartbeat timeout of %s ms, heartbeats %s', async (heartbeatTimeoutMs, _, everyMs) => {
    jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
    try {
      const environment = environmentOf(1, { heartbeatTimeoutMs });
      let beats = 0;
      environment.on('heartbeat', () => (beats += 1));
      const waiting = environment.run(
        activity((_input: void) => new Promise<void>((done) => setTimeout(done, 3 * everyMs - 1))),
      );

      await jest.advanceTimersByTimeAsync(everyMs - 1);
      expect(beats).toBe(0);
      await jest.advanceTimersByTimeAsync(2 * everyMs);
      await waiting;

      expect(beats).toBe(2);
    } finally {
      jest.useRealTimers();
    }
  });

  test('renews the lease of its sandbox while it waits', async () => {
    const denv = new FakeDenv();
    const { id } = await denv.client.createSandbox({ image: 'host' }, { key: 'k' });
    const environment = environmentOf();
    const effect = activity((_input: void) =>
      held(denv.client, { sandboxId: id, leaseS: 0.3 }, 'k', async () => {
        while (denv.effectsOf('renew').length < 2) await sleep(10);
      }),
    );

    await environment.run(effect);

    expect(new Set(denv.effectsOf('renew'))).toEqual(new Set([id]));
  });
});
