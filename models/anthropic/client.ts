import Anthropic, { APIConnectionError, APIError } from '@anthropic-ai/sdk';
import type { AgentSettings } from '../../contracts/task';
import { anthropicMessages, anthropicTools, joinSystemTexts } from './messages';
import { parseAnthropicReply } from './reply';
import { connectionError, parseRetryAfter, statusError, unreadable } from '../http-errors';
import { askWithin, fetchFor } from '../http';
import type { Endpoint } from '../http';
import { ModelError } from '../model';
import type { ModelReply } from '../../contracts/trajectory';
import type { ModelRequest } from '../model';

/** The API wants a limit in every request. */
const defaultMaxTokens = 16_384;

/** The last version of the API that takes sampling parameters; the client's own refuses them. */
const samplingVersion = '2023-06-01';

/**
 * One message of the Anthropic API, by the official client: one HTTP request, no retries.
 * A temperature or top_p is sent under the version of the API that has them. A model that takes none refuses the request.
 * @throws ModelError
 */
export async function completeAnthropic(
  endpoint: Endpoint,
  modelName: string,
  request: ModelRequest,
  signal: AbortSignal,
): Promise<ModelReply> {
  const { settings } = request.model;
  refuseSeed(settings, modelName);
  const client = createClient(endpoint, request.timeoutS);
  const what = `${modelName} at ${endpoint.baseUrl}`;
  const system = joinSystemTexts(request.messages, settings);
  const { body, durationS } = await askWithin(
    request,
    what,
    signal,
    (within): Promise<unknown> =>
      client.post('/v1/messages', {
        body: {
          model: modelName,
          max_tokens: settings.maxOutputTokens ?? defaultMaxTokens,
          messages: anthropicMessages(request.messages),
          ...(system === '' ? {} : { system }),
          ...(request.tools.length > 0 ? { tools: anthropicTools(request.tools) } : {}),
          ...(settings.temperature === undefined ? {} : { temperature: settings.temperature }),
          ...(settings.topP === undefined ? {} : { top_p: settings.topP }),
          ...settings.extraBody,
          stream: false,
        },
        headers: samples(settings) ? { 'anthropic-version': samplingVersion } : {},
        signal: within,
      }),
    (error) => toModelError(error, what),
  );
  return parseAnthropicReply(body, request.model, durationS);
}

function refuseSeed({ seed }: AgentSettings, modelName: string): void {
  if (seed === undefined) return;
  throw new ModelError(
    'ModelRequestInvalid',
    `the setting \`seed\` is not one of the Anthropic API, so ${modelName} cannot be given it: leave it out`,
  );
}

const samples = ({ temperature, topP, extraBody }: AgentSettings): boolean =>
  temperature !== undefined || topP !== undefined || extraBody?.['top_k'] !== undefined;

// The client looks for a key in the environment and in files unless it is given one.
function createClient(endpoint: Endpoint, timeoutS: number): Anthropic {
  const { apiKey } = endpoint;
  // The API reads the first header; gateways read either.
  const credentials: Record<string, string> =
    apiKey === null ? {} : { 'x-api-key': apiKey, authorization: `Bearer ${apiKey}` };
  return new Anthropic({
    baseURL: endpoint.baseUrl,
    apiKey: endpoint.apiKey ?? 'none',
    webhookKey: null,
    maxRetries: 0,
    timeout: timeoutS * 1000 + 1000,
    logLevel: 'off',
    fetch: fetchFor(['anthropic-version', 'anthropic-beta'], credentials),
  });
}

/** Turns what the official client threw into a ModelError. Its message names the request, which is `what`. */
function toModelError(error: unknown, what: string): ModelError {
  if (error instanceof ModelError) return error;
  if (error instanceof APIConnectionError) return connectionError(error, what);
  if (!(error instanceof APIError)) return unreadable(error, what);
  const said = error.apiMessage ?? error.message;
  return statusError(
    {
      status: Number(error.status ?? 0),
      message: said,
      words: `${error.type ?? ''} ${error.errorCode ?? ''} ${said}`,
      retryAfterS: parseRetryAfter(error.headers),
      cause: error,
    },
    what,
  );
}
