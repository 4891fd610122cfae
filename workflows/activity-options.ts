import { ActivityCancellationType, proxyActivities } from '@temporalio/workflow';
import type { ActivityOptions } from '@temporalio/workflow';
import type { Activities } from '../activities';

/** How long a service may be away before that counts: about the time that its restart by hand takes. */
const outageS = 600;

type Work =
  /** Making a sandbox ready. The server bounds it by the controller's own limit, and says so. */
  | 'start'
  /** A command, call or verifier with a time limit of its own. */
  | 'run'
  /** A call that is made once in a sandbox's life, and may take hours. */
  | 'once'
  /** A step of the agent: a model call, and the calls of its reply. */
  | 'step'
  /** Writing and reading records, leases, trajectory. */
  | 'record'
  /** Waiting for other rollouts, for as long as they take. */
  | 'await'
  /** Removing a sandbox. One that hangs is left to the reaper. */
  | 'stop';

// A worker that dies is noticed after heartbeatTimeout; every activity heartbeats by itself.
const base: ActivityOptions = {
  heartbeatTimeout: '4 seconds',
  cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
  retry: {
    initialInterval: '200 milliseconds',
    backoffCoefficient: 2,
    maximumInterval: '5 seconds',
  },
};

const table: Record<Work, ActivityOptions> = {
  // Tries are used up by a server that is away, not by one that takes its time: 125 of them are ten minutes.
  start: {
    ...base,
    startToCloseTimeout: '25 hours',
    retry: { ...base.retry, maximumAttempts: 125 },
  },
  run: base,
  // As with `start`: what cannot be reached for ten minutes is not waited for as long as the call itself might take.
  once: { ...base, retry: { ...base.retry, maximumAttempts: 125 } },
  // What is tried again is the model call: tool calls that fail are tried again each for itself.
  step: { ...base, retry: { ...base.retry, maximumInterval: '30 seconds' } },
  record: { ...base, startToCloseTimeout: '1 minute', scheduleToCloseTimeout: outageS * 1000 },
  await: { ...base, startToCloseTimeout: '25 hours' },
  stop: { ...base, startToCloseTimeout: '1 minute', scheduleToCloseTimeout: '2 minutes' },
};

/**
 * The activities, with the timeouts and retries of their kind of work. `summary` is what Temporal's UI shows.
 * @param limitS  of `run`, `once` and `step`: what the work may take by its own limits
 */
export function activitiesFor(work: Work, summary: string, limitS = 0): Activities {
  const options = { ...table[work], summary };
  if (work === 'run' || work === 'once' || work === 'step') {
    const waitMs = (limitS + outageS) * 1000;
    options.startToCloseTimeout = waitMs;
    options.scheduleToCloseTimeout = waitMs;
  }
  return proxyActivities<Activities>(options);
}
