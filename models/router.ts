import type * as anthropic from './anthropic/client';
import type * as google from './google/client';
import type { Endpoint } from './http';
import { ModelError } from './model';
import type { ModelClient } from './model';
import { completeOpenAi } from './openai/client';

export type Provider = 'openai' | 'anthropic' | 'google' | 'scripted';

export interface ModelSettings {
  /** Where `<provider>/<name>` goes when a rollout names no base URL; null: nowhere. */
  baseUrls: Record<Provider, string | null>;
  /** Each key with the one base URL that it may be sent to, and by which provider's client. */
  keys: { provider: Provider; baseUrl: string; apiKey: string }[];
}

/**
 * One model client for every provider: the name before the slash says which one answers.
 * A key is sent to the base URL it is bound to and nowhere else, whatever a rollout asks for.
 */
export function createModels(settings: ModelSettings): ModelClient {
  const endpointAt = (provider: Provider, baseUrl: string): Endpoint => {
    const bound = settings.keys.find(
      (key) => key.provider === provider && normal(key.baseUrl) === normal(baseUrl),
    );
    return { baseUrl: normal(baseUrl), apiKey: bound?.apiKey ?? null };
  };
  return {
    async complete(request, { signal }) {
      const { provider, modelName } = parseModelName(request.model.name);
      const baseUrl = request.model.baseUrl ?? settings.baseUrls[provider];
      if (baseUrl === null) {
        throw new ModelError(
          'ModelRequestInvalid',
          `the model \`${request.model.name}\` has no endpoint: give its base URL, or set ${provider.toUpperCase()}_BASE_URL`,
        );
      }
      const endpoint = endpointAt(provider, baseUrl);
      switch (provider) {
        case 'openai':
        case 'scripted':
          return completeOpenAi(endpoint, modelName, request, signal);
        case 'anthropic':
          return loadAnthropic().completeAnthropic(endpoint, modelName, request, signal);
        case 'google':
          return loadGoogle().completeGoogle(endpoint, modelName, request, signal);
      }
    },
  };
}

// Each client is some 20 MB and 100 ms: loaded when it is asked. `import()` of a file of one's own is no CommonJS here.
const loadAnthropic = () => require('./anthropic/client') as typeof anthropic;
const loadGoogle = () => require('./google/client') as typeof google;

/** @throws ModelError ModelRequestInvalid for a name without a known provider */
function parseModelName(name: string): { provider: Provider; modelName: string } {
  const scripted = /^scripted(?:\/(.+))?$/.exec(name);
  if (scripted) return { provider: 'scripted', modelName: scripted[1] ?? 'scripted' };
  const [, provider, modelName] = /^(openai|anthropic|google)\/(.+)$/.exec(name) ?? [];
  if (provider && modelName) return { provider: provider as Provider, modelName }; // one of the three
  throw new ModelError(
    'ModelRequestInvalid',
    `no provider for the model ${JSON.stringify(name)}: known are openai/<name>, anthropic/<name>, google/<name> and scripted`,
  );
}

const normal = (url: string): string => url.replace(/\/+$/, '');
