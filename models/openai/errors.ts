import { APIConnectionError, APIError } from 'openai';
import { connectionError, retryAfterOf, statusError, unreadable } from '../http-errors';
import { ModelError } from '../model';

/** What the official client threw, as a ModelError that names the endpoint. `what` says which request it was. */
export function modelErrorOf(error: unknown, what: string): ModelError {
  if (error instanceof ModelError) return error;
  if (error instanceof APIConnectionError) return connectionError(error, what);
  if (!(error instanceof APIError)) return unreadable(error, what);
  return statusError(
    {
      status: Number(error.status ?? 0),
      message: error.message,
      words: `${error.code ?? ''} ${error.message}`,
      retryAfterS: retryAfterOf(error.headers),
      cause: error,
    },
    what,
  );
}
