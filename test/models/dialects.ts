import type { ModelChoice } from '../../contracts/rollout';
import type { ModelRequest } from '../../models/model';
import { createModels } from '../../models/router';
import type { Provider } from '../../models/router';
import { completion, json, startChatServer } from './chat-server';
import type { Answer } from './chat-server';

/** One provider's way of saying the same things. */
export interface Dialect {
  provider: Exclude<Provider, 'scripted'>;
  /** Of the base URL, after the server's address. */
  basePath: string;
  path: string;
  keyHeaders: Record<string, string>;
  /** 100 prompt tokens, 20 of the answer. */
  saying(text: string): unknown;
  calling(name: string, args: Record<string, unknown>): unknown;
  cutShort: unknown;
  refusing: unknown;
  trouble(status: number, message: string): unknown;
  overflow: string;
  badKey: { status: number; body: unknown };
}

const key = 'sk-secret';

const message = (content: object[], more: object = {}) => ({
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'm-2026',
  content,
  stop_reason: 'end_turn',
  usage: {
    input_tokens: 70,
    cache_read_input_tokens: 20,
    cache_creation_input_tokens: 10,
    output_tokens: 20,
  },
  ...more,
});

const generated = (parts: object[], more: object = {}) => ({
  candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP', index: 0, ...more }],
  modelVersion: 'm-2026',
  usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 15, thoughtsTokenCount: 5 },
});

const googleError = (code: number, text: string, more: object = {}) => ({
  error: { code, message: text, status: 'X', ...more },
});

export const dialects: Dialect[] = [
  {
    provider: 'openai',
    basePath: '/v1',
    path: '/v1/chat/completions',
    keyHeaders: { authorization: `Bearer ${key}` },
    saying: (content) => completion({ content }),
    calling: (name, args) =>
      completion({
        content: null,
        tool_calls: [
          { id: 'a', type: 'function', function: { name, arguments: JSON.stringify(args) } },
        ],
      }),
    cutShort: completion({ content: 'so' }, { finish_reason: 'length' }),
    refusing: completion({ content: null, refusal: 'no' }),
    trouble: (_status, text) => ({ error: { message: text, type: 'x', code: null } }),
    overflow: "This model's maximum context length is 8192 tokens",
    badKey: { status: 401, body: { error: { message: 'bad key' } } },
  },
  {
    provider: 'anthropic',
    basePath: '',
    path: '/v1/messages',
    keyHeaders: { 'x-api-key': key, authorization: `Bearer ${key}` },
    saying: (text) => message([{ type: 'text', text }]),
    calling: (name, input) =>
      message([{ type: 'tool_use', id: 'a', name, input }], { stop_reason: 'tool_use' }),
    cutShort: message([{ type: 'text', text: 'so' }], { stop_reason: 'max_tokens' }),
    refusing: message([], { stop_reason: 'refusal' }),
    trouble: (_status, text) => ({ type: 'error', error: { type: 'x_error', message: text } }),
    overflow: 'prompt is too long: 210000 tokens > 200000 maximum',
    badKey: {
      status: 401,
      body: {
        type: 'error',
        error: { type: 'authentication_error', message: 'invalid x-api-key' },
      },
    },
  },
  {
    provider: 'google',
    basePath: '',
    path: '/v1beta/models/m:generateContent',
    keyHeaders: { 'x-goog-api-key': key },
    saying: (text) => generated([{ text: 'hm', thought: true }, { text }]),
    calling: (name, args) => generated([{ functionCall: { id: 'a', name, args } }]),
    cutShort: generated([{ text: 'so' }], { finishReason: 'MAX_TOKENS' }),
    refusing: { promptFeedback: { blockReason: 'PROHIBITED_CONTENT' } },
    trouble: googleError,
    overflow:
      'The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).',
    badKey: {
      status: 400,
      body: googleError(400, 'API key not valid.', { details: [{ reason: 'API_KEY_INVALID' }] }),
    },
  },
];

export const nowhere = { openai: null, anthropic: null, google: null, scripted: null };

export const requestOf = (
  { provider }: Pick<Dialect, 'provider'>,
  more: Partial<ModelRequest> = {},
  settings: ModelChoice['settings'] = {},
): ModelRequest => ({
  key: 'rollout/b/t/0/1/step/1/model',
  model: { name: `${provider}/m`, settings, price: null },
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'Mend it.' }] }],
  tools: [],
  timeoutS: 5,
  ...more,
});

/** Asks an endpoint of that dialect that answers so, once. */
export async function ask(
  dialect: Dialect,
  answer: Answer,
  request: ModelRequest,
  options: { key?: boolean; signal?: AbortSignal } = {},
) {
  const server = await startChatServer(answer);
  const baseUrl = server.address + dialect.basePath;
  const models = createModels({
    baseUrls: { ...nowhere, [dialect.provider]: baseUrl },
    keys: options.key ? [{ provider: dialect.provider, baseUrl: `${baseUrl}/`, apiKey: key }] : [],
  });
  try {
    const signal = options.signal ?? new AbortController().signal;
    const outcome = await models.complete(request, { signal }).then(
      (reply) => ({ reply, error: null }),
      (error: unknown) => ({ reply: null, error }),
    );
    return { ...outcome, seen: server.seen, address: server.address };
  } finally {
    await server.close();
  }
}

export const dialectOf = (provider: Provider): Dialect => {
  const found = dialects.find((dialect) => dialect.provider === provider);
  if (!found) throw new Error(`no dialect of ${provider}`);
  return found;
};

/** Asks for one answer with this body. */
export const asking = (
  dialect: Dialect,
  body: unknown,
  more: Partial<ModelRequest> = {},
  settings: ModelChoice['settings'] = {},
) => ask(dialect, json(body), requestOf(dialect, more, settings));
