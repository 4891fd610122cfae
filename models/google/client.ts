import { GoogleGenAI } from '@google/genai';
import { toModelError } from './errors';
import { googleContents, googleTools, joinSystemTexts } from './messages';
import { parseGoogleReply } from './reply';
import { askWithin, digest, fetchFor } from '../http';
import type { Endpoint } from '../http';
import { parseRetryAfter } from '../http-errors';
import type { ModelReply } from '../../contracts/trajectory';
import type { ModelRequest } from '../model';

/**
 * One generateContent of the Gemini API, by the official client: one HTTP request, no retries, none of the client's own
 * continuations or function calls.
 * @throws ModelError
 */
export async function completeGoogle(
  endpoint: Endpoint,
  modelName: string,
  request: ModelRequest,
  signal: AbortSignal,
): Promise<ModelReply> {
  const { settings } = request.model;
  const what = `${modelName} at ${endpoint.baseUrl}`;
  let retryAfterS: number | undefined;
  const client = createClient(endpoint, (headers) => (retryAfterS = parseRetryAfter(headers)));
  const systemInstruction = joinSystemTexts(request.messages);
  const { body, durationS } = await askWithin(
    request,
    what,
    signal,
    (within): Promise<unknown> =>
      client.models.generateContent({
        model: modelName,
        contents: googleContents(request.messages),
        config: {
          ...(systemInstruction === '' ? {} : { systemInstruction }),
          ...(request.tools.length > 0 ? { tools: googleTools(request.tools) } : {}),
          ...(settings.temperature === undefined ? {} : { temperature: settings.temperature }),
          ...(settings.topP === undefined ? {} : { topP: settings.topP }),
          ...(settings.seed === undefined ? {} : { seed: settings.seed }),
          ...(settings.maxOutputTokens === undefined
            ? {}
            : { maxOutputTokens: settings.maxOutputTokens }),
          automaticFunctionCalling: { disable: true },
          automaticContinuation: false,
          abortSignal: within,
          ...(settings.extraBody ? { httpOptions: { extraBody: settings.extraBody } } : {}),
        },
      }),
    (error) => toModelError(error, what, retryAfterS),
  );
  return parseGoogleReply(body, request.model, durationS, digest(request.key).slice(0, 12));
}

// Every setting that the client would take from the environment is given, so no key goes where it is not bound to.
function createClient({ baseUrl, apiKey }: Endpoint, onAnswer: (headers: Headers) => void) {
  return new GoogleGenAI({
    vertexai: false,
    apiKey: apiKey ?? 'none',
    apiVersion: 'v1beta',
    httpOptions: {
      baseUrl,
      fetch: fetchFor([], apiKey === null ? {} : { 'x-goog-api-key': apiKey }, onAnswer),
    },
  });
}
