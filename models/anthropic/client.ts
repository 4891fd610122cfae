import Anthropic from '@anthropic-ai/sdk';
import type { AgentSettings } from '../../contracts/task';
import { anthropicErrorOf } from './errors';
import { anthropicMessages, anthropicTools, systemOf } from './messages';
import { anthropicReplyOf } from './reply';
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
 * A temperature or top_p is sent under the version of the API that has them; what the model says to that is its own.
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
  const client = clientOf(endpoint, request.timeoutS);
  const what = `${modelName} at ${endpoint.baseUrl}`;
  const system = systemOf(request.messages, settings);
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
    (error) => anthropicErrorOf(error, what),
  );
  return anthropicReplyOf(body, request.model, durationS);
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

// A key is always given, or the client would look for one in the environment and in files.
function clientOf(endpoint: Endpoint, timeoutS: number): Anthropic {
  const { apiKey } = endpoint;
  // The API reads the first; gateways read one or the other.
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
