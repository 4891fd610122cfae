import type { RolloutInput } from '../../../contracts/rollout';
import { limitMet, secondsLeft, timeoutFailure, timeUp } from '../../../workflows/rollout/limits';
import { Rollout } from '../../../workflows/rollout/live-rollout';
import { initialState } from '../../../workflows/rollout/state';

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

function rolloutWith(limits: RolloutInput['limits']): Rollout {
  const input = inputWith(limits);
  return new Rollout(input, initialState(input, ''));
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
    const rollout = rolloutWith(limits);
    rollout.state.spent.workedS = workedS;
    rollout.state.readyAtMs = now - ago * 1000;

    expect(secondsLeft(rollout)).toBe(left);
    expect(timeUp(rollout)).toBe(met);
    expect(limitMet(rollout)).toBe(met);
  });

  test('a run’s time begins anew with the next attempt’s sandbox', () => {
    const rollout = rolloutWith({ runTimeoutS: 1 });
    rollout.state.readyAtMs = now - 2000;

    rollout.beginAttempt();

    expect(timeUp(rollout)).toBeNull();
  });

  test.each(['done', 'max_steps', 'sandbox_lost'] as const)('%s is no timeout', (stopReason) => {
    expect(timeoutFailure(inputWith({}), stopReason)).toBeNull();
  });
});
