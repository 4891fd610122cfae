import OpenAI, { APIConnectionError, APIError } from 'openai';
import type { ModelReply } from '../../contracts/trajectory';
import { connectionError, parseRetryAfter, statusError, unreadable } from '../http-errors';
import { askWithin, digest, fetchFor } from '../http';
import type { Endpoint } from '../http';
import { ModelError } from '../model';
import type { ModelRequest } from '../model';
import { chatMessages, chatTools } from './messages';
import { parseChatCompletion } from './reply';

/**
 * One chat completion of an OpenAI-compatible endpoint, by the official client: one HTTP request, no retries.
 * `Idempotency-Key` is a digest of the request's key, so an endpoint can tell a repeat from a new request.
 * @throws ModelError
 */
export async function completeOpenAi(
  endpoint: Endpoint,
  modelName: string,
  request: ModelRequest,
  signal: AbortSignal,
): Promise<ModelReply> {
  const client = createClient(endpoint, request.timeoutS);
  const { settings } = request.model;
  const what = `${modelName} at ${endpoint.baseUrl}`;
  const { body, durationS } = await askWithin(
    request,
    what,
    signal,
    (within): Promise<unknown> =>
      client.chat.completions.create(
        {
          model: modelName,
          messages: chatMessages(request.messages),
          ...(request.tools.length > 0 ? { tools: chatTools(request.tools) } : {}),
          ...(settings.temperature === undefined ? {} : { temperature: settings.temperature }),
          ...(settings.topP === undefined ? {} : { top_p: settings.topP }),
          ...(settings.seed === undefined ? {} : { seed: settings.seed }),
          ...(settings.maxOutputTokens === undefined
            ? {}
            : { max_tokens: settings.maxOutputTokens }),
          // Token ids are of use for training only with the log-probabilities beside them.
          ...(settings.extraBody?.['return_token_ids'] === true ? { logprobs: true } : {}),
          ...settings.extraBody,
          stream: false,
        },
        { signal: within, headers: { 'Idempotency-Key': digest(request.key) } },
      ),
    (error) => toModelError(error, what),
  );
  return parseChatCompletion(body, request.model, durationS);
}

// Every setting that the client would take from the environment is given, so no key goes where it is not bound to.
function createClient(endpoint: Endpoint, timeoutS: number): OpenAI {
  return new OpenAI({
    baseURL: endpoint.baseUrl,
    apiKey: endpoint.apiKey ?? 'none',
    adminAPIKey: null,
    organization: null,
    project: null,
    webhookSecret: null,
    maxRetries: 0,
    timeout: timeoutS * 1000 + 1000,
    logLevel: 'off',
    fetch: fetchFor(
      ['idempotency-key'],
      endpoint.apiKey === null ? {} : { authorization: `Bearer ${endpoint.apiKey}` },
    ),
  });
}

/** Turns what the official client threw into a ModelError. Its message names the request, which is `what`. */
function toModelError(error: unknown, what: string): ModelError {
  if (error instanceof ModelError) return error;
  if (error instanceof APIConnectionError) return connectionError(error, what);
  if (!(error instanceof APIError)) return unreadable(error, what);
  return statusError(
    {
      status: Number(error.status ?? 0),
      message: error.message,
      words: `${error.code ?? ''} ${error.message}`,
      retryAfterS: parseRetryAfter(error.headers),
      cause: error,
    },
    what,
  );
}
