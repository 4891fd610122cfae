import { ApiError } from '@google/genai';
import { z } from 'zod';
import { connectionError, statusError, unreadable } from '../http-errors';
import { ModelError } from '../model';

const Body = z.looseObject({
  error: z.looseObject({
    message: z.string().nullish(),
    status: z.string().nullish(),
    details: z
      .array(z.looseObject({ reason: z.string().nullish(), retryDelay: z.string().nullish() }))
      .nullish(),
  }),
});

/**
 * What the official client threw, as a ModelError that names the endpoint. `what` says which request it was; the client
 * keeps no headers, so `retryAfterS` is given. Without it the delay that the error's own details ask for counts.
 */
export function toModelError(
  error: unknown,
  what: string,
  retryAfterS: number | undefined,
): ModelError {
  if (error instanceof ModelError) return error;
  if (!(error instanceof ApiError)) {
    return isFetchFailure(error) ? connectionError(error, what) : unreadable(error, what);
  }
  // Its message is the answer's body.
  const body = parseErrorBody(error.message);
  const said = body?.message ?? error.message;
  const details = body?.details ?? [];
  return statusError(
    {
      status: error.status,
      message: said,
      words: [body?.status, ...details.map((detail) => detail.reason), said].join(' '),
      retryAfterS:
        retryAfterS ?? parseSeconds(details.find((detail) => detail.retryDelay)?.retryDelay),
      cause: error,
    },
    what,
  );
}

/** As `fetch` throws when a connection is not made, or broken before the answer. */
const isFetchFailure = (error: unknown): boolean =>
  typeof error === 'object' &&
  error !== null &&
  'name' in error &&
  error.name === 'TypeError' &&
  'message' in error &&
  error.message === 'fetch failed';

function parseErrorBody(text: string) {
  try {
    return Body.safeParse(JSON.parse(text)).data?.error;
  } catch {
    return undefined;
  }
}

/** As in `34.5s`. */
function parseSeconds(text: string | null | undefined): number | undefined {
  const seconds = Number(/^([\d.]+)s$/.exec(text ?? '')?.[1] ?? NaN);
  return Number.isFinite(seconds) ? seconds : undefined;
}
