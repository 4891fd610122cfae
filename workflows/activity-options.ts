import { ActivityCancellationType, proxyActivities } from '@temporalio/workflow';
import type { ActivityOptions } from '@temporalio/workflow';
import type { Activities } from '../activities';
import type { FailureType } from '../contracts/failures';

/** How long a service may be away before that counts: about the time that its restart by hand takes. */
const outageS = 600;

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

// Tries are used up by a server that is away, not by one that takes its time: 125 of them are ten minutes.
const untilAway: ActivityOptions = { ...base, retry: { ...base.retry, maximumAttempts: 125 } };

const short: ActivityOptions = {
  ...base,
  startToCloseTimeout: '1 minute',
  scheduleToCloseTimeout: outageS * 1000,
};

interface WorkOptions {
  options: ActivityOptions;
  /** What a timeout means: the failure of that which the work waits for. */
  timeout: FailureType;
  /** The caller says how long the work may take by its own limits. */
  limited?: true;
}

const table = {
  /** Making a sandbox ready. The server bounds it by the controller's own limit, and says so. */
  start: {
    options: { ...untilAway, startToCloseTimeout: '25 hours' },
    timeout: 'DenvUnavailable',
  },
  /** A command, call or verifier with a time limit of its own. The server holds that limit, so silence past it is the server's. */
  run: { options: base, timeout: 'DenvUnavailable', limited: true },
  /** A call that is made once in a sandbox's life, and may take hours. A server that is away is not waited for that long. */
  once: { options: untilAway, timeout: 'DenvUnavailable', limited: true },
  /** A step of the agent. Temporal retries its model call: tool calls that fail are tried again each for itself. */
  step: {
    options: { ...base, retry: { ...base.retry, maximumInterval: '30 seconds' } },
    timeout: 'ModelUnavailable',
    limited: true,
  },
  /** Questions to the LLM judge. */
  judge: { options: base, timeout: 'ModelUnavailable', limited: true },
  /** Reading and writing the ledger and the blobs, and short requests to Temporal. */
  record: { options: short, timeout: 'StoreUnavailable' },
  /** Renewing a lease. */
  lease: { options: short, timeout: 'DenvUnavailable' },
  /** Waiting for other rollouts, for as long as they take. The ledger tells their ends. */
  await: { options: { ...base, startToCloseTimeout: '25 hours' }, timeout: 'StoreUnavailable' },
  /** Removing a sandbox. One that hangs is left to the reaper. */
  stop: {
    options: { ...base, startToCloseTimeout: '1 minute', scheduleToCloseTimeout: '2 minutes' },
    timeout: 'DenvUnavailable',
  },
} as const satisfies Record<string, WorkOptions>;
type Work = keyof typeof table;

const workOf = {
  createSandbox: 'start',
  forkVersion: 'start',
  listTools: 'run',
  runCommand: 'run',
  callTool: 'run',
  ownCall: 'run',
  replayCalls: 'run',
  takeSnapshot: 'run',
  verify: 'run',
  runGrader: 'run',
  startTask: 'once',
  gradeTask: 'once',
  runStep: 'step',
  judge: 'judge',
  answerCall: 'record',
  appendTrajectory: 'record',
  declareContinuations: 'record',
  findResults: 'record',
  planReplay: 'record',
  readNodes: 'record',
  readRegradeFacts: 'record',
  readRollouts: 'record',
  recordLost: 'record',
  recordRegrade: 'record',
  recordResult: 'record',
  requestCancel: 'record',
  renewLease: 'lease',
  awaitRollouts: 'await',
  deleteSandbox: 'stop',
} as const satisfies Record<keyof Activities, Work>;

type ActivityOf<W extends Work> = {
  [Name in keyof Activities]: (typeof workOf)[Name] extends W ? Name : never;
}[keyof Activities];

/**
 * The activities of one kind of work, with its timeouts and retries. `summary` is what Temporal's UI shows.
 * @param limitS  what the work may take by its own limits, where its kind has such
 */
export function activitiesFor<W extends Work>(
  work: W,
  summary: string,
  limitS = 0,
): Pick<Activities, ActivityOf<W>> {
  const { options, limited }: WorkOptions = table[work];
  const waitMs = (limitS + outageS) * 1000;
  return proxyActivities<Activities>({
    ...options,
    summary,
    ...(limited ? { startToCloseTimeout: waitMs, scheduleToCloseTimeout: waitMs } : {}),
  });
}

/** The failure that a timeout of an activity means, by what it waits for. */
export function timeoutFailureType(activityType: string): FailureType {
  const isKnown = (name: string): name is keyof Activities => Object.hasOwn(workOf, name);
  return isKnown(activityType) ? table[workOf[activityType]].timeout : 'Unexpected';
}
