import { rollout } from '../../workflows';
import { calls } from '../fakes/fake-model';
import { openTemporal, startOptions } from '../temporal-env';
import type { TemporalEnv } from '../temporal-env';

describe('rollout', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  }, 60_000);

  afterAll(() => env.close());

  test('runs nop to a recorded reward and leaves no sandbox', async () => {
    const input = await env.declare({ agent: 'nop' });

    await env.withWorker({}, async ({ denv }) => {
      const result = await env.temporal.client.workflow.execute(rollout, startOptions(input));

      expect(result).toMatchObject({ outcome: 'scored', reward: 1, stopReason: 'done', steps: 0 });
      expect(await env.ledger.results([input.rolloutId])).toEqual([result]);
      expect(denv.sandboxes.size).toBe(0);
    });
  }, 60_000);

  test('loops model calls and tool calls until the agent is done', async () => {
    const input = await env.declare();

    await env.withWorker(
      {
        model: [
          calls(['write', { line: 'a' }]),
          calls(['write', { line: 'b' }], ['look', {}]),
          { text: 'mended' },
        ],
      },
      async ({ denv, model }) => {
        const result = await env.temporal.client.workflow.execute(rollout, startOptions(input));

        expect(result).toMatchObject({
          outcome: 'scored',
          reward: 1,
          stopReason: 'done',
          steps: 3,
          modelCalls: 3,
          modelCallsReissued: 0,
          toolCalls: 3,
          usage: { promptTokens: 30, completionTokens: 15, costUsd: null },
          workedS: 4.5,
        });
        expect(result.checkpoints.map(({ step }) => step)).toEqual([1, 2]);
        expect(model.requests[2]?.messages.map(({ role }) => role)).toEqual([
          'user',
          'assistant',
          'tool',
          'assistant',
          'tool',
          'tool',
        ]);
        expect(denv.sandboxes.size).toBe(0);
      },
    );
  }, 60_000);
});
