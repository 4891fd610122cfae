import { ask, asking, dialectOf, requestOf } from '../dialects';
import { json } from '../chat-server';
import { look, transcript } from '../transcript';

const dialect = dialectOf('anthropic');
const said = dialect.saying('x') as Record<string, unknown>; // a message, whatever is in it
const message = (content: object[], stop_reason = 'end_turn') => ({
  ...said,
  content,
  stop_reason,
});

describe('a message of the Anthropic API', () => {
  test('is asked for with a limit of tokens and none of the settings that were not given', async () => {
    const { seen } = await asking(dialect, said);

    expect(seen[0]?.body).toEqual({
      model: 'm',
      max_tokens: 16384,
      messages: [{ role: 'user', content: [{ type: 'text', text: 'Mend it.' }] }],
      stream: false,
    });
    expect(seen[0]?.headers['anthropic-version']).toBe('2026-10-21');
  });

  test('is asked for with the settings given, under the API version that has them', async () => {
    const settings = {
      temperature: 0.5,
      topP: 0.9,
      maxOutputTokens: 99,
      extraBody: { stop_sequences: ['.'] },
    };

    const { seen } = await asking(dialect, said, {}, settings);

    expect(seen[0]?.body).toMatchObject({
      temperature: 0.5,
      top_p: 0.9,
      max_tokens: 99,
      stop_sequences: ['.'],
    });
    expect(seen[0]?.headers['anthropic-version']).toBe('2023-06-01');
  });

  test('is not asked for with a seed, which the API has not', async () => {
    const { error, seen } = await asking(dialect, said, {}, { seed: 7 });

    expect(error).toMatchObject({
      code: 'ModelRequestInvalid',
      message:
        'the setting `seed` is not one of the Anthropic API, so m cannot be given it: leave it out',
    });
    expect(seen).toEqual([]);
  });

  test('shows a whole transcript: results of a step in one message of the user', async () => {
    const { seen } = await asking(dialect, said, { messages: transcript(), tools: [look] });

    const image = (data: string) => ({
      type: 'image',
      source: { type: 'base64', media_type: 'image/png', data },
    });
    expect(seen[0]?.body).toMatchObject({
      system: 'Be brief.',
      tools: [{ name: 'look', description: 'Looks', input_schema: look.inputSchema }],
    });
    expect(seen[0]?.body['messages']).toEqual([
      { role: 'user', content: [{ type: 'text', text: 'Mend it.' }, image('BBBB')] },
      {
        role: 'assistant',
        content: [
          { type: 'tool_use', id: 'a', name: 'look', input: { x: 1 } },
          {
            type: 'tool_use',
            id: 'call-1-1',
            name: 'look',
            input: { invalid_arguments: '{"x":' },
          },
        ],
      },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a', content: [image('AAAA')] },
          {
            type: 'tool_result',
            tool_use_id: 'call-1-1',
            is_error: true,
            content: [{ type: 'text', text: 'no JSON' }],
          },
          { type: 'text', text: 'Hurry.' },
        ],
      },
    ]);
  });

  test('never shows the API an empty or blank text, which it refuses', async () => {
    const messages = [
      { role: 'user', parts: [{ type: 'text', text: 'Go.' }] },
      { role: 'assistant', text: ' \n', toolCalls: [] },
      { role: 'user', parts: [{ type: 'text', text: '' }] },
    ] as const;

    const { seen } = await asking(dialect, said, {
      messages: structuredClone([...messages]) as never,
    });

    expect(seen[0]?.body['messages']).toMatchObject([
      {},
      { role: 'assistant', content: [{ text: '(nothing)' }] },
      { role: 'user', content: [{ text: '(nothing)' }] },
    ]);
  });

  test('hands signed thinking back as it stood, to its own provider alone', async () => {
    const content = [
      { type: 'thinking', thinking: 'hm', signature: 'c2ln' },
      { type: 'text', text: 'Looking.' },
      { type: 'tool_use', id: 'a', name: 'look', input: { x: 1 } },
    ];

    const { reply } = await asking(dialect, message(content, 'tool_use'));
    const own = await asking(dialect, said, { messages: transcript(reply?.handBack) });
    const google = await asking(dialectOf('google'), dialectOf('google').saying('x'), {
      messages: transcript(reply?.handBack),
      model: { ...requestOf(dialectOf('google')).model },
    });

    expect(reply).toMatchObject({ text: 'Looking.', handBack: { provider: 'anthropic' } });
    expect(own.seen[0]?.body['messages']).toMatchObject([{}, { role: 'assistant', content }, {}]);
    expect(JSON.stringify(google.seen[0]?.body)).not.toContain('c2ln');
  });

  test('keeps nothing to hand back of a reply without thinking', async () => {
    const { reply } = await asking(dialect, said);

    expect(reply).not.toHaveProperty('handBack');
  });

  test('takes a call that the limit cut for one with broken arguments', async () => {
    const content = [
      { type: 'tool_use', id: 'a', name: 'look', input: { x: 1 } },
      { type: 'tool_use', id: 'b', name: 'write', input: { line: 'half of' } },
    ];

    const { reply } = await asking(dialect, message(content, 'max_tokens'));

    expect(reply?.toolCalls).toEqual([
      { id: 'a', name: 'look', arguments: { x: 1 } },
      { id: 'b', name: 'write', arguments: null, rawArguments: '{"line":"half of"}' },
    ]);
  });

  test.each([
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['model_context_window_exceeded', 'length'],
  ])('stop reason %s is %s', async (reason, expected) => {
    const { reply } = await asking(dialect, message([{ type: 'text', text: 'x' }], reason));

    expect(reply?.finishReason).toBe(expected);
  });

  test('a turn that the endpoint paused for a tool of its own is refused by name', async () => {
    const { error } = await asking(dialect, message([], 'pause_turn'));

    expect(error).toMatchObject({
      code: 'ModelRequestInvalid',
      message: expect.stringContaining('paused its turn'),
    });
  });

  test('an overloaded API is ModelUnavailable with its own words', async () => {
    const body = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } };

    const { error, address } = await ask(dialect, json(body, 529), requestOf(dialect));

    expect(error).toMatchObject({
      code: 'ModelUnavailable',
      message: `529 from m at ${address}: Overloaded`,
    });
  });
});
