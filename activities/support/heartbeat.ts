import { setTimeout as sleep } from 'node:timers/promises';
import { CancelledFailure, Context } from '@temporalio/activity';
import type { DenvClient } from '../../denv/client';
import { DenvError } from '../../denv/errors';
import { toFailure, WorkerLetGoError } from './failures';

/** A cancellation arrives with the answer to a heartbeat, so an activity with a long timeout, or none, heartbeats at least this often. */
const longestHeartbeatMs = 10_000;

/** How long an operation may take to end once it is cancelled. */
const cancelMs = 10_000;

/**
 * Makes an activity of an effect: it heartbeats twice within its heartbeat timeout, and whatever it throws becomes a failure with
 * type and class. `signal` says to let go. Only a cancellation asked for by the workflow ends as cancelled; a worker that shuts
 * down fails the activity retryably, so another worker takes it over at once.
 */
export function activity<I, O>(
  effect: (input: I, signal: AbortSignal) => Promise<O>,
): (input: I) => Promise<O> {
  return async (input) => {
    const context = Context.current();
    const signal = context.cancellationSignal;
    const halfTimeoutMs = (context.info.heartbeatTimeoutMs ?? Infinity) / 2;
    const everyMs = Math.min(halfTimeoutMs, longestHeartbeatMs);
    const timer = setInterval(() => context.heartbeat(), everyMs);
    try {
      return await effect(input, signal);
    } catch (error) {
      if (!signal.aborted) throw toFailure(error);
      if (cancelRequested()) throw new CancelledFailure('the rollout was cancelled');
      throw toFailure(letGo(error));
    } finally {
      clearInterval(timer);
    }
  };
}

/** True when the workflow itself asked for the end of this activity: not on shutdown, timeout or a lost heartbeat. */
export const cancelRequested = (): boolean =>
  Context.current().cancellationDetails?.cancelRequested === true;

function letGo(error: unknown): unknown {
  if (!(error instanceof CancelledFailure)) return error;
  return new WorkerLetGoError(`the worker let go of ${Context.current().info.activityType}`);
}

/**
 * Waits for a keyed operation of denv. Renews the sandbox's lease meanwhile; when the rollout is cancelled, the operation
 * is cancelled too, and its recorded outcome is "killed".
 */
export async function held<T>(
  denv: DenvClient,
  lease: { sandboxId: string; leaseS: number } | null,
  key: string,
  work: () => Promise<T>,
): Promise<T> {
  const stopRenewing = lease ? renewing(denv, lease) : () => undefined;
  try {
    return await work();
  } catch (error) {
    if (cancelRequested()) await cancelOperation(denv, key);
    throw error;
  } finally {
    stopRenewing();
  }
}

/** Renews a lease at every third of it. A renewal that fails does not fail the wait: the next one, or the next call, counts. */
export function renewing(
  denv: DenvClient,
  lease: { sandboxId: string; leaseS: number },
): () => void {
  const renew = (): void => {
    denv.renew(lease.sandboxId, { leaseS: lease.leaseS }).catch(() => undefined);
  };
  const timer = setInterval(renew, (lease.leaseS * 1000) / 3);
  return () => clearInterval(timer);
}

// An operation that never began, or a server that is away, has nothing to cancel, and one that will not end is not waited for:
// deleting the sandbox ends the rest.
async function cancelOperation(denv: DenvClient, key: string): Promise<void> {
  try {
    await Promise.race([denv.cancelOperation(key), sleep(cancelMs, undefined, { ref: false })]);
  } catch (error) {
    if (!(error instanceof DenvError)) throw error;
  }
}
