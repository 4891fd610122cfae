import { createHash } from 'node:crypto';
import { Agent, fetch as undiciFetch } from 'undici';
import { ModelError } from './model';
import type { ModelRequest } from './model';

export interface Endpoint {
  /** As in `https://api.openai.com/v1`. */
  baseUrl: string;
  /** The key bound to that base URL; null sends none. */
  apiKey: string | null;
}

// The limits of the HTTP library itself (300 s) are off: `timeoutS` of the request is the one that counts.
const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0, connections: 1024 });

const plainHeaders = ['accept', 'content-type', 'user-agent'];

/**
 * `fetch` for an official client: with the headers that are named, and no others, for the clients also add what the
 * environment tells them to. Redirects are not followed, since a key belongs to one address.
 * @param kept  beside the plain ones
 * @param credentials  headers that are set
 * @param onAnswer  sees the answer's headers where the client keeps them to itself
 */
export function fetchFor(
  kept: string[],
  credentials: Record<string, string>,
  onAnswer: (headers: Headers) => void = () => undefined,
): typeof fetch {
  return async (input, init) => {
    const given = new Headers(init?.headers);
    const headers = new Headers(credentials);
    for (const name of [...plainHeaders, ...kept]) {
      const value = given.get(name);
      if (value !== null) headers.set(name, value);
    }
    const options = { ...init, headers, redirect: 'manual', dispatcher };
    const send = undiciFetch as unknown as typeof fetch; // the same function, typed by its own package
    const answer = await send(input, options as RequestInit);
    onAnswer(answer.headers);
    return answer;
  };
}

/**
 * Runs one request of an official client, within the time the request has.
 * @param explain  what the client threw, as a ModelError
 * @throws ModelError; what `signal` was aborted with, when it was
 */
export async function askWithin<T>(
  { timeoutS }: ModelRequest,
  what: string,
  signal: AbortSignal,
  send: (signal: AbortSignal) => Promise<T>,
  explain: (error: unknown) => ModelError,
): Promise<{ body: T; durationS: number }> {
  // The clients' own timeouts end with the headers; a body that never comes must not hold us either.
  const timeout = AbortSignal.timeout(timeoutS * 1000);
  const startedAt = performance.now();
  try {
    const body = await send(AbortSignal.any([signal, timeout]));
    return { body, durationS: (performance.now() - startedAt) / 1000 };
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (timeout.aborted) {
      const message = `no answer from ${what} within ${timeoutS} s`;
      throw new ModelError('ModelUnavailable', message, { cause: error, answered: false });
    }
    throw explain(error);
  }
}

export const digest = (text: string): string => createHash('sha256').update(text).digest('hex');
