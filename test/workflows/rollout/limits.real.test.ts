import { DenvError } from '../../../denv/errors';
import { calls } from '../../fakes/fake-model';
import { FakeDenv, textReply } from '../../fakes/fake-denv';
import { openTemporal } from '../../temporal-env';
import type { RolloutSpec, TemporalEnv } from '../../temporal-env';

const write = calls(['write', { line: 'a' }]);
const price = { promptUsdPerMTok: 1, completionUsdPerMTok: 1 };

describe('limits of a rollout', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  test.each([
    ['max_steps', { limits: { maxSteps: 2 } }, 2],
    ['max_tokens', { limits: { maxTokens: 30 } }, 2],
    ['max_cost', { limits: { maxCostUsd: 0.5 }, model: { name: 'm', settings: {}, price } }, 1],
    ['agent_timeout', { limits: { agentTimeoutS: 4 } }, 3],
  ] as [string, RolloutSpec, number][])(
    '%s stops the agent, and what it left is verified all the same',
    async (stopReason, spec, steps) => {
      const usage = {
        promptTokens: 10,
        completionTokens: 5,
        costUsd: spec.model?.price ? 0.5 : null,
      };
      const model = Array.from({ length: 9 }, () => ({ ...(write as object), usage }));

      const { result, fakes } = await env.run(spec, { model });

      expect(result).toMatchObject({ outcome: 'scored', reward: 1, stopReason, steps });
      expect(fakes.model.requests).toHaveLength(steps);
      expect(fakes.denv.effectsOf('verify')).toHaveLength(1);
      expect(result.failure?.type ?? null).toBe(
        stopReason === 'agent_timeout' ? 'AgentTimeout' : null,
      );
    },
  );

  test('an agent whose time is up is graded, with the failure beside its score', async () => {
    const { result } = await env.run(
      { limits: { agentTimeoutS: 2 }, task: { hud: { id: 'add' }, verifier: undefined } },
      { model: Array.from({ length: 9 }, () => write) },
    );

    expect(result).toMatchObject({
      outcome: 'scored',
      reward: 1,
      stopReason: 'agent_timeout',
      failure: {
        class: 'agent',
        type: 'AgentTimeout',
        stage: 'loop',
        message: "the agent's 2 s were over",
      },
    });
  });

  const runOver = {
    outcome: 'scored',
    reward: 1,
    stopReason: 'run_timeout',
    failure: {
      class: 'agent',
      type: 'RunTimeout',
      stage: 'loop',
      message: "the run's 1.5 s were over",
    },
  };

  test('a run whose time is up lets go of the model, and is graded', async () => {
    const { result, fakes } = await env.run(
      { limits: { runTimeoutS: 1.5 }, task: { hud: { id: 'add' }, verifier: undefined } },
      { model: ['hang'] },
    );

    expect(result).toMatchObject({ ...runOver, steps: 0, modelCalls: 0 });
    expect(fakes.model.requests).toHaveLength(1);
    expect(result.attempts).toHaveLength(1);
  });

  test('a tool call gets what is left of the run’s time, and no more', async () => {
    const denv = new FakeDenv();
    const limits: number[] = [];
    denv.handlers.call = ({ method, timeoutS = 0 }) => {
      if (method !== 'tools/call') return undefined;
      limits.push(timeoutS);
      return { timedOut: true, durationS: timeoutS };
    };
    const two = { ...(calls(['look', {}], ['look', {}]) as object), durationS: 0.25 };

    const { result } = await env.run({ limits: { runTimeoutS: 1.5 } }, { denv, model: [two] });

    expect(result).toMatchObject({ ...runOver, steps: 1, toolCalls: 1 });
    expect(limits).toHaveLength(1);
    expect(limits[0]).toBeLessThanOrEqual(1.25);
    expect(limits[0]).toBeGreaterThan(0);
  });

  test('a tool call gets what is left of the agent’s time, and no more', async () => {
    const denv = new FakeDenv();
    const limits: number[] = [];
    denv.handlers.call = ({ method, timeoutS }) => {
      if (method !== 'tools/call') return undefined;
      limits.push(timeoutS ?? 0);
      return limits.length < 2 ? textReply('ok') : { timedOut: true, durationS: 8.4 };
    };

    const { result } = await env.run(
      { limits: { agentTimeoutS: 11, toolTimeoutS: 600 } },
      { denv, model: Array.from({ length: 9 }, () => write) },
    );

    expect(limits).toEqual([10, 8.5]);
    expect(result).toMatchObject({ stopReason: 'agent_timeout', outcome: 'scored', workedS: 11 });
  });

  test('a call that is asked for again asks for the very same', async () => {
    const denv = new FakeDenv();
    const requests: unknown[] = [];
    denv.handlers.call = (request, { key }) => {
      if (request.method !== 'tools/call') return undefined;
      if (!key.endsWith('/2')) return textReply('ok', { durationS: 0.1 });
      requests.push(request);
      if (requests.length < 2) throw new DenvError('unavailable', 'connection refused');
      return textReply('ok', { durationS: 0.1 });
    };
    const three = calls(['look', {}], ['look', {}], ['look', {}]);
    const model = [
      { ...(three as object), durationS: 0.1 },
      { text: 'done', durationS: 0.1 },
    ];

    const { result } = await env.run({ limits: { agentTimeoutS: 1.1 } }, { denv, model });

    expect(result).toMatchObject({ stopReason: 'done', toolCalls: 3, workedS: 0.5 });
    expect(requests).toHaveLength(2);
    expect(requests[1]).toEqual(requests[0]);
    expect(requests[0]).toMatchObject({ timeoutS: 0.8 });
  });

  test('spent budget runs on over attempts: nothing starts from zero', async () => {
    const denv = new FakeDenv();
    denv.handlers.call = ({ method }, { key }) => {
      if (method === 'tools/call' && key.includes('/1/step/3')) {
        throw new DenvError('sandbox_not_found', 'gone');
      }
      return undefined;
    };

    const { result } = await env.run(
      { limits: { maxSteps: 5 }, checkpoints: 'never' },
      { denv, model: Array.from({ length: 9 }, () => write) },
    );

    expect(result).toMatchObject({ stopReason: 'max_steps', steps: 5, modelCalls: 5 });
    expect(result.attempts).toHaveLength(2);
    expect(result.usage.promptTokens).toBe(50);
  });

  test('an answer that its own length limit cut stops with max_tokens', async () => {
    const { result } = await env.run({}, { model: [{ text: 'I wi', finishReason: 'length' }] });

    expect(result).toMatchObject({ stopReason: 'max_tokens', outcome: 'scored' });
  });
});
