import OpenAI from 'openai';
import type { ModelReply } from '../../contracts/trajectory';
import { askWithin, digest, fetchFor } from '../http';
import type { Endpoint } from '../http';
import type { ModelRequest } from '../model';
import { modelErrorOf } from './errors';
import { chatMessages, chatTools } from './messages';
import { replyOf } from './reply';

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
  const client = clientOf(endpoint, request.timeoutS);
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
    (error) => modelErrorOf(error, what),
  );
  return replyOf(body, request.model, durationS);
}

// Every setting that the client would take from the environment is given, so no key goes where it is not bound to.
function clientOf(endpoint: Endpoint, timeoutS: number): OpenAI {
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
