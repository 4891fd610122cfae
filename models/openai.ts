import { createHash } from 'node:crypto';
import OpenAI from 'openai';
import { Agent, fetch as undiciFetch } from 'undici';
import type { ModelReply } from '../contracts/trajectory';
import { ModelError } from './model';
import type { ModelRequest } from './model';
import { modelErrorOf } from './openai-errors';
import { chatMessages, chatTools } from './openai-messages';
import { replyOf } from './openai-reply';

export interface Endpoint {
  /** As in `https://api.openai.com/v1`. */
  baseUrl: string;
  /** The key bound to that base URL; null sends none. */
  apiKey: string | null;
}

// The limits of the HTTP library itself (300 s) are off: `timeoutS` of the request is the one that counts.
const dispatcher = new Agent({ headersTimeout: 0, bodyTimeout: 0, connections: 1024 });

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
  // The client's own timeout ends with the headers; a body that never comes must not hold us either.
  const timeout = AbortSignal.timeout(request.timeoutS * 1000);
  const startedAt = performance.now();
  let body: unknown;
  try {
    body = await client.chat.completions.create(
      {
        model: modelName,
        messages: chatMessages(request.messages),
        ...(request.tools.length > 0 ? { tools: chatTools(request.tools) } : {}),
        ...(settings.temperature === undefined ? {} : { temperature: settings.temperature }),
        ...(settings.topP === undefined ? {} : { top_p: settings.topP }),
        ...(settings.seed === undefined ? {} : { seed: settings.seed }),
        ...(settings.maxOutputTokens === undefined ? {} : { max_tokens: settings.maxOutputTokens }),
        ...settings.extraBody,
        stream: false,
      },
      {
        signal: AbortSignal.any([signal, timeout]),
        headers: { 'Idempotency-Key': digest(request.key) },
      },
    );
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (timeout.aborted) {
      const message = `no answer from ${what} within ${request.timeoutS} s`;
      throw new ModelError('ModelUnavailable', message, { cause: error, answered: false });
    }
    throw modelErrorOf(error, what);
  }
  return replyOf(body, request.model, (performance.now() - startedAt) / 1000);
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
    defaultHeaders: endpoint.apiKey === null ? { Authorization: null } : {},
    fetch: undiciFetch as unknown as typeof fetch, // the same function, typed by its own package
    fetchOptions: { dispatcher },
  });
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex');
