import { APIConnectionError, APIError } from 'openai';
import { ModelError } from './model';

const overflowWords =
  /context[ _]length|maximum context|context window|prompt is too long|too many (input )?tokens|input is too long/i;
const refusalWords = /content[ _]?(policy|filter)|safety system|flagged/i;

/** Nobody was there, so nobody can have worked on the request. */
const neverArrived = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH/;

/** What the official client threw, as a ModelError that names the endpoint. `what` says which request it was. */
export function modelErrorOf(error: unknown, what: string): ModelError {
  if (error instanceof ModelError) return error;
  if (error instanceof APIConnectionError) {
    const cause = causeOf(error);
    return new ModelError('ModelUnavailable', `no answer from ${what}: ${cause}`, {
      cause: error,
      answered: neverArrived.test(cause),
    });
  }
  if (error instanceof APIError) return statusError(error, what);
  // The body broke off, or was not the JSON that its headers promise.
  return new ModelError('ModelUnavailable', `unreadable answer from ${what}: ${causeOf(error)}`, {
    cause: error,
  });
}

function statusError(error: APIError, what: string): ModelError {
  const status = Number(error.status ?? 0);
  const message = `${status} from ${what}: ${error.message.slice(0, 500)}`;
  const options = { cause: error };
  const words = `${error.code ?? ''} ${error.message}`;
  if (status === 401 || status === 403)
    return new ModelError('ModelUnauthorized', message, options);
  if (status === 429) {
    const retryAfterS = retryAfterOf(error.headers);
    return new ModelError('ModelRateLimited', message, { ...options, retryAfterS });
  }
  if (status === 408 || status === 409 || status === 425 || status >= 500) {
    const retryAfterS = retryAfterOf(error.headers);
    return new ModelError('ModelUnavailable', message, { ...options, retryAfterS });
  }
  if (overflowWords.test(words) || status === 413) {
    return new ModelError('ContextOverflow', message, options);
  }
  if (refusalWords.test(words)) return new ModelError('ModelRefused', message, options);
  return new ModelError('ModelRequestInvalid', message, options);
}

/** Seconds of a Retry-After header, which holds a number or a date. */
function retryAfterOf(headers: Headers | undefined): number | undefined {
  const text = headers?.get('retry-after');
  if (text === null || text === undefined || text.trim() === '') return undefined;
  const seconds = Number(text);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, (at - Date.now()) / 1000);
}

/** The innermost message: the client's own say little. */
function causeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return String(error);
  if ('cause' in error && error.cause) return causeOf(error.cause);
  return 'message' in error ? String(error.message) : 'no reason given';
}
