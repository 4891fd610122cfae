import { ModelError } from '../../../models/model';
import { calls, FakeModel } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';

describe('a model that makes trouble', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  test.each([
    ['ContextOverflow', 'context_overflow'],
    ['ModelRefused', 'refused'],
  ] as const)(
    '%s is the agent’s: it stops, and what it left is verified',
    async (code, stopReason) => {
      const model = [calls(['write', { line: 'a' }]), new ModelError(code, 'no')];

      const { result } = await env.run({}, { model });

      expect(result).toMatchObject({
        outcome: 'scored',
        reward: 1,
        stopReason,
        steps: 1,
        failure: { class: 'agent', type: code },
      });
      expect(result.attempts).toHaveLength(1);
    },
  );

  test('a refusal in a reply stops the agent too', async () => {
    const { result } = await env.run(
      {},
      { model: [{ text: 'I cannot', finishReason: 'refused' }] },
    );

    expect(result).toMatchObject({ outcome: 'scored', stopReason: 'refused', steps: 1 });
  });

  test('a tool call without a name stops it: nothing can be answered', async () => {
    const { result } = await env.run({}, { model: [calls(['', {}])] });

    expect(result).toMatchObject({ outcome: 'scored', stopReason: 'malformed_tool_call' });
  });

  test.each(['ModelUnauthorized', 'ModelRequestInvalid'] as const)(
    '%s is final, unscored, class model',
    async (code) => {
      const { result, fakes } = await env.run({}, { model: [new ModelError(code, '401 from m')] });

      expect(result).toMatchObject({
        outcome: 'unscored',
        reward: null,
        failure: { class: 'model', type: code, stage: 'loop', message: '401 from m' },
      });
      expect(fakes.model.requests).toHaveLength(1);
      expect(fakes.denv.effectsOf('verify')).toEqual([]);
      expect(fakes.denv.sandboxes.size).toBe(0);
    },
  );

  test.each([
    ['answers garbage', new ModelError('ModelUnavailable', 'garbage')],
    [
      'limits the rate for longer than we wait',
      new ModelError('ModelRateLimited', '429', { retryAfterS: 60 }),
    ],
  ])('an endpoint that %s ends unscored, class model', async (_title, error) => {
    const { result } = await env.run({ modelWaitS: 3 }, { model: [error] });

    expect(result).toMatchObject({
      outcome: 'unscored',
      reward: null,
      failure: { class: 'model', type: error.code },
    });
  });

  test('an endpoint that never answers ends unscored, class model', async () => {
    const { result } = await env.run({ modelWaitS: 2, modelTimeoutS: 60 }, { model: ['hang'] });

    expect(result).toMatchObject({ outcome: 'unscored', failure: { class: 'model' } });
  });

  test('a rate limit is waited out for as long as it says, and charged to nobody', async () => {
    const limits = [1, 1];
    const asked: number[] = [];
    const model = new FakeModel(() => {
      asked.push(performance.now());
      const retryAfterS = limits.pop();
      if (retryAfterS) return new ModelError('ModelRateLimited', '429', { retryAfterS });
      return { text: 'done' };
    });
    const { result } = await env.run({}, { model });

    expect(result).toMatchObject({
      outcome: 'scored',
      workedS: 1,
      modelCalls: 1,
      modelCallsReissued: 0,
    });
    const [first = 0, second = 0, third = 0] = asked;
    expect(asked).toHaveLength(3);
    // A timer may be early by a little; a busy machine makes the waits longer alone.
    expect(second - first).toBeGreaterThan(990);
    expect(third - second).toBeGreaterThan(990);
  });

  test('a request that nobody got an answer of is asked again and counted', async () => {
    let tries = 0;
    const model = new FakeModel(() => {
      tries += 1;
      if (tries > 1) return { text: 'done' };
      return new ModelError('ModelUnavailable', 'no answer in time', { answered: false });
    });

    const { result } = await env.run({}, { model });

    expect(result).toMatchObject({ outcome: 'scored', modelCalls: 1, modelCallsReissued: 1 });
  });
});
