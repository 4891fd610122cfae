import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/workflow';
import type { FailureDetails } from '../activities/support/failures';
import type { Failure, Stage } from '../contracts/rollout';

/** A failure as the workflow sees it: what goes into the result, and what to do about it. */
export interface Trouble {
  failure: Failure;
  details: FailureDetails;
}

/**
 * What an activity threw. Its class comes with it; where Temporal itself gave up waiting, the class is that of what was waited
 * for. An error that is no failure is a fault in this code and goes on, so that the workflow task is tried again.
 */
export function troubleOf(error: unknown, stage: Stage): Trouble {
  const cause = error instanceof ActivityFailure ? error.cause : error;
  if (cause instanceof ApplicationFailure) {
    const details = (cause.details?.[0] ?? defaultDetails) as FailureDetails; // written by activities/failures.ts
    return troubleWith(cause.type ?? 'Unexpected', stage, cause.message, details);
  }
  if (error instanceof ActivityFailure && cause instanceof TimeoutFailure) {
    const last = cause.cause instanceof Error ? `: ${cause.cause.message}` : '';
    const message = `${error.activityType} had no end in time (${cause.timeoutType})${last}`;
    return troubleWith('DenvUnavailable', stage, message, defaultDetails);
  }
  throw error;
}

/** A failure that the workflow itself finds. */
export const failed = (
  type: string,
  message: string,
  details: FailureDetails,
): ApplicationFailure =>
  ApplicationFailure.create({ type, message, nonRetryable: true, details: [details] });

const defaultDetails: FailureDetails = { class: 'infra', again: 'attempt' };

const troubleWith = (
  type: string,
  stage: Stage,
  message: string,
  details: FailureDetails,
): Trouble => ({
  failure: { class: details.class, type, stage, message: message.slice(0, 1000) },
  details,
});
