import type { RolloutInput } from '../../../contracts/rollout';
import { limitMet, secondsLeft, timeoutFailure, timeUp } from '../../../workflows/rollout/limits';
import { beginAttempt, initialState } from '../../../workflows/rollout/state';

function inputWith(limits: RolloutInput['limits']): RolloutInput {
  return {
    rolloutId: 'rollout/b/t/0',
    batchId: 'b',
    taskId: 't',
    index: 0,
    taskRef: 'sha256:0',
    identity: 'i',
    owner: 'o',
    agent: 'model',
    model: { name: 'm', settings: {}, price: null },
    limits,
    checkpoints: 'never',
    onOutcomeUnknown: 'report',
  };
}

describe('limits in time', () => {
  const now = 1_000_000;

  beforeEach(() => jest.useFakeTimers({ now }));
  afterEach(() => jest.useRealTimers());

  test.each([
    [{ agentTimeoutS: 5 }, 2, 60, 3, null],
    [{ agentTimeoutS: 5, runTimeoutS: 61 }, 2, 60, 1, null],
    [{ agentTimeoutS: 5, runTimeoutS: 70 }, 2, 60, 3, null],
    [{ agentTimeoutS: 5, runTimeoutS: 60 }, 2, 60, 0, 'run_timeout'],
    [{ agentTimeoutS: 2, runTimeoutS: 60 }, 2, 60, 0, 'agent_timeout'],
  ])('%j, %d s worked, %d s since ready: %d s left, %s', (limits, workedS, ago, left, met) => {
    const input = inputWith(limits);
    const state = initialState(input, '');
    state.spent.workedS = workedS;
    state.readyAtMs = now - ago * 1000;

    expect(secondsLeft(input, state)).toBe(left);
    expect(timeUp(input, state)).toBe(met);
    expect(limitMet(input, state)).toBe(met);
  });

  test('a run’s time begins anew with the next attempt’s sandbox', () => {
    const input = inputWith({ runTimeoutS: 1 });
    const state = initialState(input, '');
    state.readyAtMs = now - 2000;

    beginAttempt(state, input);

    expect(timeUp(input, state)).toBeNull();
  });

  test.each(['done', 'max_steps', 'sandbox_lost'] as const)('%s is no timeout', (stopReason) => {
    expect(timeoutFailure(inputWith({}), stopReason)).toBeNull();
  });
});
