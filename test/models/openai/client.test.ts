import type { ModelChoice } from '../../../contracts/rollout';
import type { ModelError, ModelRequest } from '../../../models/model';
import { createModels } from '../../../models/router';
import { completion, json, startChatServer } from '../chat-server';
import type { Answer } from '../chat-server';

const nowhere = { openai: null, anthropic: null, google: null, scripted: null };
const choice: ModelChoice = { name: 'openai/m', settings: {}, price: null };

const request = (more: Partial<ModelRequest> = {}): ModelRequest => ({
  key: 'rollout/b/t/0/1/step/1/model',
  model: choice,
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'Mend it.' }] }],
  tools: [],
  timeoutS: 5,
  ...more,
});

/** Asks an endpoint that answers so, once. */
async function ask(answer: Answer, more: Partial<ModelRequest> = {}) {
  const server = await startChatServer(answer);
  const models = createModels({ baseUrls: { ...nowhere, openai: server.baseUrl }, keys: [] });
  try {
    const { signal } = new AbortController();
    const outcome = await models.complete(request(more), { signal }).then(
      (reply) => ({ reply, error: null }),
      (error: unknown) => ({ reply: null, error }),
    );
    return { ...outcome, seen: server.seen };
  } finally {
    await server.close();
  }
}

describe('a chat completion', () => {
  test('is asked for with the settings given and none besides', async () => {
    const settings = {
      temperature: 0.5,
      topP: 0.9,
      seed: 7,
      maxOutputTokens: 99,
      extraBody: { top_k: 3 },
    };
    const model = { ...choice, settings };
    const tools = [{ name: 'look', description: 'Looks', inputSchema: { type: 'object' } }];

    const { seen } = await ask(json(completion({ content: 'done' })), { model, tools });

    expect(seen).toHaveLength(1);
    expect(seen[0]?.path).toBe('/v1/chat/completions');
    expect(seen[0]?.body).toEqual({
      model: 'm',
      messages: [{ role: 'user', content: 'Mend it.' }],
      tools: [
        {
          type: 'function',
          function: { name: 'look', description: 'Looks', parameters: { type: 'object' } },
        },
      ],
      temperature: 0.5,
      top_p: 0.9,
      seed: 7,
      max_tokens: 99,
      top_k: 3,
      stream: false,
    });
  });

  test('gives text, usage and cost', async () => {
    const price = { promptUsdPerMTok: 10, completionUsdPerMTok: 50 };

    const { reply } = await ask(json(completion({ content: 'done' })), {
      model: { ...choice, price },
    });

    expect(reply).toMatchObject({
      text: 'done',
      toolCalls: [],
      finishReason: 'stop',
      model: 'm-2026',
      usage: { promptTokens: 100, completionTokens: 20, costUsd: 0.002 },
    });
    expect(reply?.durationS).toBeGreaterThan(0);
  });

  test('gives tool calls; arguments that are no JSON object are kept as they were written', async () => {
    const call = (id: string, args: unknown) => ({
      id,
      type: 'function',
      function: { name: 'write', arguments: args },
    });
    const tool_calls = [
      call('a', '{"line":"x"}'),
      call('b', '{"line":'),
      call('c', '[1]'),
      call('d', ''),
      call('e', { line: 'y' }),
    ];

    const { reply } = await ask(json(completion({ content: null, tool_calls })));

    expect(reply?.finishReason).toBe('tool_calls');
    expect(reply?.toolCalls).toEqual([
      { id: 'a', name: 'write', arguments: { line: 'x' } },
      { id: 'b', name: 'write', arguments: null, rawArguments: '{"line":' },
      { id: 'c', name: 'write', arguments: null, rawArguments: '[1]' },
      { id: 'd', name: 'write', arguments: {} },
      { id: 'e', name: 'write', arguments: { line: 'y' } },
    ]);
  });

  describe('with token ids', () => {
    const logprobs = { content: [{ logprob: -0.5 }, { logprob: -1 }] };
    const asked = { ...choice, settings: { extraBody: { return_token_ids: true } } };

    test.each([
      ['beside the choice', {}, { prompt_token_ids: [7, 8], token_ids: [1, 2], logprobs }, {}],
      ['in the message', { prompt_token_ids: [7, 8], token_ids: [1, 2] }, { logprobs }, {}],
      ['at the top', {}, { token_ids: [1, 2], logprobs }, { prompt_token_ids: [7, 8] }],
    ])('keeps those that stand %s', async (_title, inMessage, inChoice, top) => {
      const body = { ...completion({ content: 'x', ...inMessage }, inChoice), ...top };

      const { reply } = await ask(json(body), { model: asked });

      expect(reply).toMatchObject({
        promptTokenIds: [7, 8],
        tokenIds: [1, 2],
        logprobs: [-0.5, -1],
      });
    });

    test.each([
      [{}, true],
      [{ logprobs: false }, false],
      [{ return_token_ids: false }, undefined],
    ])('%j with them asked for sends logprobs: %s', async (more, expected) => {
      const model = {
        ...choice,
        settings: { extraBody: { return_token_ids: true, ...more } },
      };

      const { seen } = await ask(json(completion({ content: 'x' })), { model });

      expect(seen[0]?.body['logprobs']).toBe(expected);
    });

    test('that do not fit the log-probabilities: refused when asked for, else left out', async () => {
      const answer = json(completion({ content: 'x' }, { token_ids: [1, 2, 3], logprobs }));

      const refused = await ask(answer, { model: asked });
      const { reply } = await ask(answer);

      expect(refused.error).toMatchObject({
        code: 'ModelRequestInvalid',
        message:
          'the endpoint answered with 3 token ids and 2 log-probabilities, which do not match: ' +
          'leave out return_token_ids, or use an endpoint that returns both alike',
      });
      expect(reply).toMatchObject({ text: 'x' });
      expect(reply).not.toHaveProperty('tokenIds');
      expect(reply).not.toHaveProperty('logprobs');
    });
  });

  test.each([
    ['content_filter', {}, 'refused'],
    ['stop', { refusal: 'I cannot' }, 'refused'],
    ['length', {}, 'length'],
  ])('finish reason %s with %j is %s', async (finish_reason, message, expected) => {
    const { reply } = await ask(json(completion({ content: 'x', ...message }, { finish_reason })));

    expect(reply?.finishReason).toBe(expected);
  });

  test('shows a whole transcript: images after the step’s tool messages, broken arguments as JSON', async () => {
    const messages: ModelRequest['messages'] = [
      { role: 'system', text: 'Be brief.' },
      { role: 'user', parts: [{ type: 'text', text: 'Mend it.' }] },
      {
        role: 'assistant',
        text: '',
        toolCalls: [
          { id: 'a', name: 'look', arguments: { x: 1 } },
          { id: 'b', name: 'look', arguments: null, rawArguments: '{"x":' },
        ],
      },
      {
        role: 'tool',
        toolCallId: 'a',
        name: 'look',
        isError: false,
        parts: [{ type: 'image', mimeType: 'image/png', base64: 'AAAA' }],
      },
      {
        role: 'tool',
        toolCallId: 'b',
        name: 'look',
        isError: true,
        parts: [{ type: 'text', text: 'no JSON' }],
      },
    ];

    const { seen } = await ask(json(completion({ content: 'x' })), { messages });

    expect(seen[0]?.body.messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Mend it.' },
      {
        role: 'assistant',
        content: null,
        tool_calls: [
          { id: 'a', type: 'function', function: { name: 'look', arguments: '{"x":1}' } },
          {
            id: 'b',
            type: 'function',
            function: { name: 'look', arguments: '{"invalid_arguments":"{\\"x\\":"}' },
          },
        ],
      },
      { role: 'tool', tool_call_id: 'a', content: '(no output)' },
      { role: 'tool', tool_call_id: 'b', content: 'no JSON' },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Images of tool call a:' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
        ],
      },
    ]);
  });
});

describe('trouble with an endpoint', () => {
  const apiError = (message: string, code: string | null = null) => ({
    error: { message, code, type: 'x' },
  });

  test.each([
    [400, apiError('too long', 'context_length_exceeded'), 'ContextOverflow'],
    [400, apiError('blocked', 'content_policy_violation'), 'ModelRefused'],
  ])('%d %j is %s by its code', async (status, body, code) => {
    const { error } = await ask(json(body, status));

    expect(error).toMatchObject({ code, answered: true });
  });

  test.each([
    ['7', 7],
    ['0.5', 0.5],
    [new Date(Date.now() + 60_000).toUTCString(), 60],
  ])('Retry-After %s is kept in seconds', async (header, seconds) => {
    const { error } = await ask(json({}, 429, { 'retry-after': header }));

    expect((error as ModelError).retryAfterS).toBeGreaterThan(seconds - 3);
    expect((error as ModelError).retryAfterS).toBeLessThanOrEqual(seconds);
  });
});

describe('the name of a model', () => {
  const models = createModels({
    baseUrls: nowhere,
    keys: [],
  });
  const complete = (name: string) =>
    models.complete(request({ model: { ...choice, name } }), {
      signal: new AbortController().signal,
    });

  test('says who answers: an unknown provider is refused', async () => {
    await expect(complete('other/m')).rejects.toMatchObject({
      code: 'ModelRequestInvalid',
      message:
        'no provider for the model "other/m": known are openai/<name>, anthropic/<name>, google/<name> and scripted',
    });
  });

  test('scripted needs an endpoint', async () => {
    await expect(complete('scripted')).rejects.toMatchObject({ code: 'ModelRequestInvalid' });
  });

  test('scripted goes to its own endpoint', async () => {
    const server = await startChatServer(json(completion({ content: 'x' })));
    try {
      const own = createModels({
        baseUrls: { ...nowhere, scripted: server.baseUrl },
        keys: [],
      });
      const model = { ...choice, name: 'scripted' };
      await own.complete(request({ model }), { signal: new AbortController().signal });

      expect(server.seen[0]?.body.model).toBe('scripted');
    } finally {
      await server.close();
    }
  });
});
