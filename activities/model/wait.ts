import { Context } from '@temporalio/activity';
import { ModelError } from '../../models/model';
import { FoundError, toFinalFailure } from '../support/failures';

/** A timer can wait no longer. */
const longestMs = 2 ** 31 - 1;

/**
 * Asks a model, within `waitS` of the scheduling of the activity, all its tries counted: the activity itself may take longer,
 * for it does more than that. What fails then is final. A try that begins late, as after a time without workers, is still made.
 * At `runEndsAtMs` the model is let go of whatever it does.
 * @throws FoundError RunTimeout
 */
export async function withinWait<T>(
  { waitS, runEndsAtMs }: { waitS: number; runEndsAtMs?: number },
  signal: AbortSignal,
  ask: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const endAt = Context.current().info.scheduledTimestampMs + waitS * 1000;
  const leftMs = Math.ceil(endAt - Date.now());
  const over = leftMs > 0 ? AbortSignal.timeout(Math.min(leftMs, longestMs)) : null;
  const runOver = runEndsAtMs === undefined ? null : timeoutAt(runEndsAtMs);
  const ends = [signal, over, runOver].filter((end) => end !== null);
  try {
    return await ask(ends.length > 1 ? AbortSignal.any(ends) : signal);
  } catch (error) {
    if (signal.aborted) throw error;
    if (runOver?.aborted) throw new FoundError('RunTimeout', 'the run was over before the reply');
    if (over?.aborted) {
      throw toFinalFailure(new ModelError('ModelUnavailable', `no reply within ${waitS} s`));
    }
    if (!(error instanceof ModelError)) throw error;
    const nextAt = Date.now() + (error.retryAfterS ?? 0) * 1000;
    throw nextAt < endAt ? error : toFinalFailure(error);
  }
}

const timeoutAt = (atMs: number): AbortSignal =>
  AbortSignal.timeout(Math.min(Math.max(0, atMs - Date.now()), longestMs));
