import { ModelError } from './model';

const overflowWords =
  /context[ _]length|maximum context|context window|context limit|prompt is too long|too many (input )?tokens|input is too long|input token count .*exceeds/i;
const refusalWords = /content[ _]?(policy|filter)|safety system|flagged/i;
const badKeyWords = /api key (not valid|expired)|api_key_invalid/i;

/** Nobody was there, so nobody can have worked on the request. */
const neverArrived = /ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH/;

export interface HttpTrouble {
  status: number;
  message: string;
  /** What tells one 400 from another: message, code and type. */
  words: string;
  retryAfterS?: number | undefined;
  cause: unknown;
}

/** An HTTP error status as a ModelError. `what` says which request it was. */
export function statusError(trouble: HttpTrouble, what: string): ModelError {
  const { status, words, retryAfterS, cause } = trouble;
  const message = `${status} from ${what}: ${trouble.message.slice(0, 500)}`;
  const waiting = { cause, ...(retryAfterS === undefined ? {} : { retryAfterS }) };
  if (status === 401 || status === 402 || status === 403) {
    return new ModelError('ModelUnauthorized', message, { cause });
  }
  if (status === 429) return new ModelError('ModelRateLimited', message, waiting);
  if (status === 408 || status === 409 || status === 425 || status >= 499) {
    return new ModelError('ModelUnavailable', message, waiting);
  }
  if (badKeyWords.test(words)) return new ModelError('ModelUnauthorized', message, { cause });
  if (overflowWords.test(words) || status === 413) {
    return new ModelError('ContextOverflow', message, { cause });
  }
  if (refusalWords.test(words)) return new ModelError('ModelRefused', message, { cause });
  return new ModelError('ModelRequestInvalid', message, { cause });
}

/** No connection, or one that broke before the answer was there. */
export function connectionError(error: unknown, what: string): ModelError {
  const cause = innermost(error);
  return new ModelError('ModelUnavailable', `no answer from ${what}: ${cause}`, {
    cause: error,
    answered: neverArrived.test(cause),
  });
}

/** The body broke off, or was not the JSON that its headers promise. */
export const unreadable = (error: unknown, what: string): ModelError =>
  new ModelError('ModelUnavailable', `unreadable answer from ${what}: ${innermost(error)}`, {
    cause: error,
  });

/** Seconds of a Retry-After header, which holds a number or a date. */
export function parseRetryAfter(headers: Headers | null | undefined): number | undefined {
  const text = headers?.get('retry-after');
  if (text === null || text === undefined || text.trim() === '') return undefined;
  const seconds = Number(text);
  if (Number.isFinite(seconds)) return Math.max(0, seconds);
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : Math.max(0, (at - Date.now()) / 1000);
}

/** The innermost message: the clients' own say little. */
function innermost(error: unknown): string {
  if (typeof error !== 'object' || error === null) return String(error);
  if ('cause' in error && error.cause) return innermost(error.cause);
  if (!('message' in error)) return 'no reason given';
  // Several addresses were tried, and each has its own error.
  if (String(error.message) === '' && 'code' in error) return String(error.code);
  return String(error.message);
}
