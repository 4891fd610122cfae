import { json } from '../chat-server';
import { ask, asking, dialectOf, requestOf } from '../dialects';
import { look, transcript } from '../transcript';

const dialect = dialectOf('google');
const said = dialect.saying('x');
const answer = (parts: object[], finishReason = 'STOP') => ({
  candidates: [{ content: { role: 'model', parts }, finishReason }],
});

describe('content of the Gemini API', () => {
  test('is asked for with the settings given', async () => {
    const settings = {
      temperature: 0.5,
      topP: 0.9,
      seed: 7,
      maxOutputTokens: 99,
      extraBody: { generationConfig: { topK: 3 }, safetySettings: [] },
    };

    const { seen } = await asking(dialect, said, { tools: [look] }, settings);

    expect(seen[0]?.body).toEqual({
      contents: [{ role: 'user', parts: [{ text: 'Mend it.' }] }],
      tools: [
        {
          functionDeclarations: [
            { name: 'look', description: 'Looks', parametersJsonSchema: look.inputSchema },
          ],
        },
      ],
      generationConfig: { temperature: 0.5, topP: 0.9, seed: 7, maxOutputTokens: 99, topK: 3 },
      safetySettings: [],
    });
  });

  test('shows a whole transcript: results of a step first, and no id that the API did not give', async () => {
    const { seen } = await asking(dialect, said, { messages: transcript() });

    expect(seen[0]?.body).toMatchObject({
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
    });
    expect(seen[0]?.body['contents']).toEqual([
      {
        role: 'user',
        parts: [{ text: 'Mend it.' }, { inlineData: { mimeType: 'image/png', data: 'BBBB' } }],
      },
      {
        role: 'model',
        parts: [
          {
            functionCall: { id: 'a', name: 'look', args: { x: 1 } },
            thoughtSignature: 'skip_thought_signature_validator',
          },
          { functionCall: { name: 'look', args: { invalid_arguments: '{"x":' } } },
        ],
      },
      {
        role: 'user',
        parts: [
          { functionResponse: { id: 'a', name: 'look', response: { output: '(no output)' } } },
          { functionResponse: { name: 'look', response: { error: 'no JSON' } } },
          { text: 'Images of tool call a:' },
          { inlineData: { mimeType: 'image/png', data: 'AAAA' } },
          { text: 'Hurry.' },
        ],
      },
    ]);
  });

  test('hands signed calls back as they stood', async () => {
    const parts = [
      { text: 'hm', thought: true },
      { functionCall: { name: 'look', args: { x: 1 } }, thoughtSignature: 'c2ln' },
    ];

    const { reply } = await asking(dialect, answer(parts));
    const { seen } = await asking(dialect, said, { messages: transcript(reply?.handBack) });

    expect(reply).toMatchObject({ text: '', finishReason: 'tool_calls' });
    expect(seen[0]?.body['contents']).toMatchObject([{}, { role: 'model', parts }, {}]);
    expect(JSON.stringify(seen[0]?.body)).not.toContain('skip_thought');
  });

  test('gives calls without an id one: the same for every try at a request, another for another', async () => {
    const parts = [
      { functionCall: { name: 'look', args: {} } },
      { functionCall: { name: 'look' } },
    ];
    const idsOf = async (key: string) => {
      const { reply } = await asking(dialect, answer(parts), { key });
      return reply?.toolCalls.map((call) => call.id) ?? [];
    };

    const [one, again, other] = [await idsOf('k1'), await idsOf('k1'), await idsOf('k2')];

    expect(one).toEqual(again);
    expect(new Set([...one, ...other]).size).toBe(4);
    expect(one[0]).toMatch(/^call-/);
  });

  test.each(['MALFORMED_FUNCTION_CALL', 'UNEXPECTED_TOOL_CALL'])(
    '%s is a tool call that nothing can be shown for',
    async (reason) => {
      const { reply } = await asking(dialect, answer([], reason));

      expect(reply?.toolCalls).toEqual([
        { id: '', name: '', arguments: null, rawArguments: reason },
      ]);
    },
  );

  test.each([
    ['STOP', 'stop'],
    ['SAFETY', 'refused'],
    ['RECITATION', 'refused'],
  ])('finish reason %s is %s', async (reason, expected) => {
    const { reply } = await asking(dialect, answer([{ text: 'x' }], reason));

    expect(reply?.finishReason).toBe(expected);
  });

  test('an empty answer that gives no reason is ModelUnavailable', async () => {
    const { error } = await asking(dialect, answer([], 'OTHER'));

    expect(error).toMatchObject({ code: 'ModelUnavailable', answered: true });
  });

  test('a limit without Retry-After has the delay of its details', async () => {
    const details = [{ '@type': 'x/google.rpc.RetryInfo', retryDelay: '34.5s' }];
    const body = { error: { code: 429, message: 'quota', status: 'RESOURCE_EXHAUSTED', details } };

    const { error, address } = await ask(dialect, json(body, 429), requestOf(dialect));

    expect(error).toMatchObject({
      code: 'ModelRateLimited',
      retryAfterS: 34.5,
      message: `429 from m at ${address}: quota`,
    });
  });
});
