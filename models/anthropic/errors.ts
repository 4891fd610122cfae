import { APIConnectionError, APIError } from '@anthropic-ai/sdk';
import { connectionError, retryAfterOf, statusError, unreadable } from '../http-errors';
import { ModelError } from '../model';

/** What the official client threw, as a ModelError that names the endpoint. `what` says which request it was. */
export function anthropicErrorOf(error: unknown, what: string): ModelError {
  if (error instanceof ModelError) return error;
  if (error instanceof APIConnectionError) return connectionError(error, what);
  if (!(error instanceof APIError)) return unreadable(error, what);
  const said = error.apiMessage ?? error.message;
  return statusError(
    {
      status: Number(error.status ?? 0),
      message: said,
      words: `${error.type ?? ''} ${error.errorCode ?? ''} ${said}`,
      retryAfterS: retryAfterOf(error.headers),
      cause: error,
    },
    what,
  );
}
