import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/workflow';
import type { FailureDetails } from '../activities/support/failures';
import { failureTable, isFailureType } from '../contracts/failures';
import type { FailureType } from '../contracts/failures';
import type { Failure, Stage } from '../contracts/rollout';
import { timeoutFailureType } from './activity-options';

/** A failure as the workflow sees it: what goes into the result, and what to do about it. */
export interface Trouble {
  failure: Failure & { type: FailureType };
  details: FailureDetails;
}

/**
 * Converts what an activity threw. Its class comes with it; where Temporal itself gave up waiting, the class is that of what was
 * waited for. An error that is no failure is a fault in this code and is thrown again, so that the workflow task is tried again.
 */
export function toTrouble(error: unknown, stage: Stage): Trouble {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure) {
    // Temporal itself makes failures too, as for an activity that no worker knows: they have its types, and no details.
    const type = isFailureType(cause.type) ? cause.type : 'Unexpected';
    const details = cause.details?.[0] as FailureDetails | undefined; // activities/support/failures.ts wrote it
    return troubleWith(type, stage, cause.message, details ?? usualDetails(type));
  }
  if (error instanceof ActivityFailure && cause instanceof TimeoutFailure) {
    const last = cause.cause instanceof Error ? `: ${cause.cause.message}` : '';
    const message = `${error.activityType} had no end in time (${cause.timeoutType})${last}`;
    const type = whatTimedOut(error.activityType, cause);
    return troubleWith(type, stage, message, usualDetails(type));
  }
  throw error;
}

/** The last try may have said what it waited for, or its worker fell silent; else that is what the activity is for. */
function whatTimedOut(
  activityType: string,
  { timeoutType, cause: last }: TimeoutFailure,
): FailureType {
  if (last instanceof ApplicationFailure && isFailureType(last.type)) return last.type;
  const lastTimeout = last instanceof TimeoutFailure ? last.timeoutType : timeoutType;
  return lastTimeout === 'HEARTBEAT' ? 'WorkerShutdown' : timeoutFailureType(activityType);
}

/** A failure that the workflow itself finds; `details` where they are not the usual ones of its type. */
export const failed = (
  type: FailureType,
  message: string,
  details: FailureDetails = usualDetails(type),
): ApplicationFailure =>
  ApplicationFailure.create({ type, message, nonRetryable: true, details: [details] });

function usualDetails(type: FailureType): FailureDetails {
  const { class: failureClass, again } = failureTable[type];
  return { class: failureClass, again };
}

const troubleWith = (
  type: FailureType,
  stage: Stage,
  message: string,
  details: FailureDetails,
): Trouble => ({
  failure: { class: details.class, type, stage, message: message.slice(0, 1000) },
  details,
});
