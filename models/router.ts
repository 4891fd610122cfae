import { ModelError } from './model';
import type { ModelClient } from './model';
import { completeOpenAi } from './openai';
import type { Endpoint } from './openai';

export interface ModelSettings {
  /** Where `openai/<name>` goes when a rollout names no base URL. */
  openaiBaseUrl: string;
  /** Where `scripted` goes when a rollout names no base URL; null: nowhere. */
  scriptedBaseUrl: string | null;
  /** Each key with the one base URL that it may be sent to. */
  keys: { baseUrl: string; apiKey: string }[];
}

/**
 * One model client for every provider: the name before the slash says which one answers.
 * A key is sent to the base URL it is bound to and nowhere else, whatever a rollout asks for.
 */
export function createModels(settings: ModelSettings): ModelClient {
  const endpointAt = (baseUrl: string): Endpoint => {
    const bound = settings.keys.find((key) => normal(key.baseUrl) === normal(baseUrl));
    return { baseUrl: normal(baseUrl), apiKey: bound?.apiKey ?? null };
  };
  return {
    async complete(request, { signal }) {
      const { name, baseUrl } = request.model;
      const scripted = /^scripted(?:\/(.+))?$/.exec(name);
      if (scripted) {
        const address = baseUrl ?? settings.scriptedBaseUrl;
        if (address === null) {
          throw new ModelError(
            'ModelRequestInvalid',
            'the model `scripted` has no endpoint: give its base URL, or set SCRIPTED_BASE_URL',
          );
        }
        return completeOpenAi(endpointAt(address), scripted[1] ?? 'scripted', request, signal);
      }
      const openai = /^openai\/(.+)$/.exec(name);
      if (openai?.[1]) {
        const endpoint = endpointAt(baseUrl ?? settings.openaiBaseUrl);
        return completeOpenAi(endpoint, openai[1], request, signal);
      }
      throw new ModelError(
        'ModelRequestInvalid',
        `no provider for the model ${JSON.stringify(name)}: known are openai/<name> and scripted`,
      );
    },
  };
}

const normal = (url: string): string => url.replace(/\/+$/, '');
