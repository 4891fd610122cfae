import {
  ActivityFailure,
  ApplicationFailure,
  RetryState,
  TimeoutFailure,
  TimeoutType,
} from '@temporalio/common';
import { toTrouble } from '../../workflows/failures';

/** An activity that Temporal gave up waiting for; `last` is the failure of its last try. */
function timedOut(activityType: string, type: TimeoutType, last?: Error): ActivityFailure {
  const cause = new TimeoutFailure('activity timeout', undefined, type);
  Object.assign(cause, { cause: last }); // as Temporal's converter does
  return new ActivityFailure('activity failed', activityType, '1', RetryState.TIMEOUT, 'w', cause);
}

describe('a timeout of an activity', () => {
  const close = TimeoutType.SCHEDULE_TO_CLOSE;

  test.each([
    ['runStep', 'ModelUnavailable', 'model', 'never'],
    ['judge', 'ModelUnavailable', 'model', 'never'],
    ['recordResult', 'StoreUnavailable', 'infra', 'attempt'],
    ['appendTrajectory', 'StoreUnavailable', 'infra', 'attempt'],
    ['callTool', 'DenvUnavailable', 'infra', 'attempt'],
    ['verify', 'DenvUnavailable', 'infra', 'attempt'],
    ['renewLease', 'DenvUnavailable', 'infra', 'attempt'],
    ['ofAnotherRelease', 'Unexpected', 'infra', 'attempt'],
  ])('of %s is a %s, class %s, tried again: %s', (activityType, type, failureClass, again) => {
    const { failure, details } = toTrouble(timedOut(activityType, close), 'loop');

    expect(failure).toEqual({
      class: failureClass,
      type,
      stage: 'loop',
      message: `${activityType} had no end in time (SCHEDULE_TO_CLOSE)`,
    });
    expect(details).toEqual({ class: failureClass, again });
  });

  test('is that of what its last try waited for, where that said so', () => {
    const last = ApplicationFailure.create({ type: 'StoreUnavailable', message: 'ledger is away' });

    const { failure } = toTrouble(timedOut('runStep', close, last), 'loop');

    expect(failure).toMatchObject({
      type: 'StoreUnavailable',
      message: 'runStep had no end in time (SCHEDULE_TO_CLOSE): ledger is away',
    });
  });

  test('is laid to the worker whose last try fell silent', () => {
    const last = new TimeoutFailure('heartbeat timeout', undefined, TimeoutType.HEARTBEAT);

    expect(toTrouble(timedOut('runStep', close, last), 'loop').failure.type).toBe('WorkerShutdown');
    expect(toTrouble(timedOut('runStep', TimeoutType.HEARTBEAT), 'loop').failure.type).toBe(
      'WorkerShutdown',
    );
  });
});

test('an error that is no failure is thrown again', () => {
  const fault = new TypeError('a fault in the code');

  expect(() => toTrouble(fault, 'loop')).toThrow(fault);
});
