import { ModelError } from '../../models/model';
import type { ModelMessage } from '../../models/model';
import { createModels } from '../../models/router';
import { json, startChatServer } from './chat-server';
import type { Answer } from './chat-server';
import { ask, asking, dialects, nowhere, requestOf } from './dialects';

describe.each(dialects)('$provider', (dialect) => {
  const { provider } = dialect;
  const once = (answer: Answer, more: Parameters<typeof requestOf>[1] = {}) =>
    ask(dialect, answer, requestOf(dialect, more));

  test('answers with text, usage and cost, after one request', async () => {
    const price = { promptUsdPerMTok: 10, completionUsdPerMTok: 50 };
    const { model } = requestOf(dialect);

    const { reply, seen } = await asking(dialect, dialect.saying('done'), {
      model: { ...model, price },
    });

    expect(reply).toMatchObject({
      text: 'done',
      toolCalls: [],
      finishReason: 'stop',
      model: 'm-2026',
      usage: { promptTokens: 100, completionTokens: 20, costUsd: 0.002 },
    });
    expect(seen.map(({ path }) => path)).toEqual([dialect.path]);
  });

  test('answers with tool calls', async () => {
    const { reply } = await asking(dialect, dialect.calling('write', { line: 'x' }));

    expect(reply).toMatchObject({
      toolCalls: [{ id: 'a', name: 'write', arguments: { line: 'x' } }],
      finishReason: 'tool_calls',
    });
  });

  test('says whether the answer was cut or refused', async () => {
    const cut = await asking(dialect, dialect.cutShort);
    const refused = await asking(dialect, dialect.refusing);

    expect(cut.reply).toMatchObject({ text: 'so', finishReason: 'length' });
    expect(refused.reply?.finishReason).toBe('refused');
  });

  test('is shown a conversation that begins with the assistant', async () => {
    const messages: ModelMessage[] = [
      { role: 'assistant', text: 'What is it?', toolCalls: [] },
      { role: 'user', parts: [{ type: 'text', text: 'Mend it.' }] },
    ];

    const { reply, seen } = await asking(dialect, dialect.saying('done'), { messages });

    const shown = seen[0]?.body['messages'] ?? seen[0]?.body['contents'];
    const roles = (shown as { role: string }[]).map(({ role }) => role);
    expect(reply?.text).toBe('done');
    expect(roles).toEqual(
      {
        openai: ['assistant', 'user'],
        anthropic: ['user', 'assistant', 'user'],
        google: ['user', 'model', 'user'],
      }[provider],
    );
  });

  test.each([
    [403, 'not for you', 'ModelUnauthorized'],
    [400, dialect.overflow, 'ContextOverflow'],
    [400, 'unknown field', 'ModelRequestInvalid'],
    [404, 'no such model', 'ModelRequestInvalid'],
    [429, 'slow down', 'ModelRateLimited'],
    [500, 'oops', 'ModelUnavailable'],
    [503, 'overloaded', 'ModelUnavailable'],
    [529, 'overloaded', 'ModelUnavailable'],
  ])('%d %j is %s, after one request', async (status, said, code) => {
    const { error, seen, address } = await once(json(dialect.trouble(status, said), status));

    expect(error).toBeInstanceOf(ModelError);
    expect(error).toMatchObject({ code, answered: true });
    expect((error as ModelError).message).toContain(`${status} from m at ${address}`);
    expect((error as ModelError).message).toContain(said);
    expect(seen).toHaveLength(1);
  });

  test('a key that is not accepted is ModelUnauthorized', async () => {
    const { error } = await once(json(dialect.badKey.body, dialect.badKey.status));

    expect(error).toMatchObject({ code: 'ModelUnauthorized' });
  });

  test.each([
    [429, 'ModelRateLimited'],
    [503, 'ModelUnavailable'],
  ])('Retry-After of a %d is kept', async (status, code) => {
    const answer = json(dialect.trouble(status, 'later'), status, { 'retry-after': '7' });

    const { error } = await once(answer);

    expect(error).toMatchObject({ code, retryAfterS: 7 });
  });

  test.each([
    ['HTML', (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>')],
    [
      'broken JSON',
      (response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{"x": ['),
    ],
    ['another shape', json({ choices: [], content: 'x', candidates: [] })],
    ['an error in HTML', (response) => response.writeHead(502).end('<html>')],
  ] as [string, Answer][])('%s is ModelUnavailable', async (_title, answer) => {
    const { error, seen } = await once(answer);

    expect(error).toMatchObject({ code: 'ModelUnavailable', answered: true });
    expect(seen).toHaveLength(1);
  });

  test('a broken connection is ModelUnavailable, and not taken for an answer', async () => {
    const { error } = await once((response) => response.destroy());

    expect(error).toMatchObject({ code: 'ModelUnavailable', answered: false });
  });

  test.each([
    ['no answer', () => undefined],
    [
      'half an answer',
      (response) => response.writeHead(200, { 'content-type': 'application/json' }).write('{"x"'),
    ],
  ] as [string, Answer][])('%s in time is ModelUnavailable', async (_title, answer) => {
    const { error, seen } = await once(answer, { timeoutS: 0.3 });

    expect(error).toMatchObject({
      code: 'ModelUnavailable',
      answered: false,
      message: expect.stringMatching(/^no answer from m at .* within 0.3 s$/),
    });
    expect(seen).toHaveLength(1);
  });

  test('nobody at the address is ModelUnavailable, and nobody can have worked on it', async () => {
    const gone = await startChatServer(() => undefined);
    await gone.close();
    const models = createModels({ baseUrls: { ...nowhere, [provider]: gone.address }, keys: [] });

    await expect(
      models.complete(requestOf(dialect), { signal: new AbortController().signal }),
    ).rejects.toMatchObject({ code: 'ModelUnavailable', answered: true });
  });

  test('letting go passes the reason on untouched', async () => {
    const abort = new AbortController();
    const reason = new Error('let go');

    const { error } = await ask(dialect, () => abort.abort(reason), requestOf(dialect), {
      signal: abort.signal,
    });

    expect(error).toBe(reason);
  });

  describe('a key', () => {
    const answer = json(dialect.saying('x'));

    test('is sent to the base URL it is bound to', async () => {
      const { seen } = await ask(dialect, answer, requestOf(dialect), { key: true });

      expect(seen[0]?.headers).toMatchObject(dialect.keyHeaders);
    });

    test('is not sent where that base URL redirects to', async () => {
      const elsewhere = await startChatServer(answer);
      try {
        const redirect: Answer = (response) =>
          response.writeHead(307, { location: elsewhere.address + dialect.path }).end();
        const { error } = await ask(dialect, redirect, requestOf(dialect), { key: true });

        expect(error).toBeInstanceOf(ModelError);
        expect(elsewhere.seen).toEqual([]);
      } finally {
        await elsewhere.close();
      }
    });

    test('is sent nowhere else, and neither is anything of the environment’s', async () => {
      const elsewhere = await startChatServer(answer);
      const before = { ...process.env };
      const leaks = 'X-Leak: sk-env';
      Object.assign(process.env, {
        OPENAI_API_KEY: 'sk-env',
        OPENAI_ORG_ID: 'sk-env',
        OPENAI_CUSTOM_HEADERS: leaks,
        ANTHROPIC_API_KEY: 'sk-env',
        ANTHROPIC_AUTH_TOKEN: 'sk-env',
        ANTHROPIC_CUSTOM_HEADERS: leaks,
        GEMINI_API_KEY: 'sk-env',
        GOOGLE_GENAI_USE_VERTEXAI: 'true',
        GOOGLE_CLOUD_PROJECT: 'sk-env',
      });
      const apiKey = 'sk-secret';
      try {
        const models = createModels({
          baseUrls: { ...nowhere, [provider]: 'http://127.0.0.1:1' },
          keys: [
            { provider, baseUrl: 'http://127.0.0.1:1', apiKey },
            // Another provider's key for the very address.
            { provider: 'scripted', baseUrl: elsewhere.address + dialect.basePath, apiKey },
          ],
        });
        const { model } = requestOf(dialect);
        const baseUrl = elsewhere.address + dialect.basePath;
        await models.complete(requestOf(dialect, { model: { ...model, baseUrl } }), {
          signal: new AbortController().signal,
        });

        expect(elsewhere.seen).toHaveLength(1);
        expect(JSON.stringify(elsewhere.seen)).not.toMatch(/sk-/);
      } finally {
        process.env = before;
        await elsewhere.close();
      }
    });
  });
});
