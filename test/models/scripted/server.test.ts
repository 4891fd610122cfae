import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  startScripted,
  type ScriptedEndpoint,
  type ScriptedFault,
} from '../../../models/scripted/server';
import { checkScript, readScript } from '../../../models/scripted/script';

const script = {
  entries: [
    {
      when: 'the shop',
      replies: [
        { text: 'Looking.', toolCalls: [{ name: 'read_log', arguments: { service: 'web' } }] },
        { toolCalls: [{ name: 'bash', rawArguments: '{not json' }] },
        { text: 'Done.' },
      ],
      variants: [{ replies: [{ text: 'Another way.' }] }],
    },
    { when: 'slow', replies: [{ text: 'At last.', delayMs: 60_000 }] },
    { when: 'busy', replies: [{ status: 429, retryAfterS: 7 }] },
    { when: 'noise', replies: [{ body: '<html>' }] },
    { when: 'What is', replies: [{ solve: 'sum' as const }] },
    {
      when: 'Toss',
      policy: [
        {
          seen: 'coin',
          choices: [
            { weight: 3, reply: { text: 'heads' } },
            { weight: 1, reply: { text: 'tails' } },
          ],
        },
        { seen: 'edge', choices: [{ weight: 1, reply: { text: 'Neither.' } }] },
      ],
    },
  ],
};

interface Answer {
  choices: { message: { content: string; tool_calls: { function: { arguments: string } }[] } }[];
  usage: object;
  error: { message: string };
}
const json = async (response: Response) => (await response.json()) as Answer; // the tests check what is in it

const said = { role: 'assistant', content: 'x' };

describe('startScripted', () => {
  let endpoint: ScriptedEndpoint;
  const ask = (messages: object[], more: object = {}, signal?: AbortSignal) =>
    fetch(`${endpoint.address}/v1/chat/completions`, {
      method: 'POST',
      body: JSON.stringify({ model: 'scripted', messages, ...more }),
      signal: signal ?? null,
    });
  const user = (content: unknown) => ({ role: 'user', content });

  beforeEach(async () => {
    endpoint = await startScripted({ script });
  });
  afterEach(() => endpoint.close());

  test('answers the n-th reply to a request that holds n assistant messages', async () => {
    const first = await (
      await ask([{ role: 'system', content: 's' }, user('Mend the shop.')])
    ).json();
    const third = await json(await ask([user('Mend the shop.'), said, said]));

    expect(first).toMatchObject({
      object: 'chat.completion',
      model: 'scripted',
      choices: [
        {
          message: {
            role: 'assistant',
            content: 'Looking.',
            tool_calls: [
              {
                id: 'call_0_0',
                type: 'function',
                function: { name: 'read_log', arguments: '{"service":"web"}' },
              },
            ],
          },
          finish_reason: 'tool_calls',
        },
      ],
    });
    expect(third.choices[0]).toMatchObject({
      message: { content: 'Done.' },
      finish_reason: 'stop',
    });
  });

  test('gives the same request the same answer, to the byte', async () => {
    const one = await (await ask([user('the shop')])).text();
    await ask([user('the shop'), said]);
    const two = await (await ask([user('the shop')])).text();

    expect(two).toBe(one);
  });

  test('counts a token for four characters', async () => {
    const messages = [user('the shop'), said, said];

    const { usage } = await json(await ask(messages));

    const promptTokens = Math.ceil(JSON.stringify(messages).length / 4);
    expect(usage).toEqual({
      prompt_tokens: promptTokens,
      completion_tokens: 2,
      total_tokens: promptTokens + 2,
    });
  });

  test('sends raw arguments as they stand', async () => {
    const body = await json(await ask([user('the shop'), said]));

    expect(body.choices[0]?.message.tool_calls[0]?.function.arguments).toBe('{not json');
  });

  test.each([
    [0, 'Looking.'],
    [1, 'Another way.'],
    [2, 'Looking.'],
    [-1, 'Another way.'],
  ])('goes the way that seed %d chooses', async (seed, text) => {
    const body = await json(await ask([user('the shop')], { seed }));

    expect(body.choices[0]?.message.content).toBe(text);
  });

  test('reads a prompt made of parts', async () => {
    const body = await json(await ask([user([{ type: 'text', text: 'Mend the shop.' }])]));

    expect(body.choices[0]?.message.content).toBe('Looking.');
  });

  test.each([
    ['What is 2 + 3? Reply with just the number.', '5'],
    ['What is -12+5?', '-7'],
    ['What is 9007199254740993 + 1?', '9007199254740994'],
  ])('solves %j', async (prompt, sum) => {
    const body = await json(await ask([user([{ type: 'text', text: prompt }])]));

    expect(body.choices[0]?.message.content).toBe(sum);
  });

  test('says so when there is no sum to solve', async () => {
    const response = await ask([user('What is love?')]);

    expect([response.status, (await json(response)).error.message]).toEqual([
      500,
      'there is no sum to solve in "What is love?"',
    ]);
  });

  describe('with a policy', () => {
    const toss = async (seed: number, ...more: object[]) => {
      const body = await json(await ask([user('Toss a coin.'), ...more], { seed }));
      return body.choices[0]?.message.content;
    };
    const seeds = Array.from({ length: 200 }, (_, seed) => seed);

    test('chooses by weight, and for one seed always alike', async () => {
      const once = await Promise.all(seeds.map((seed) => toss(seed)));
      const again = await Promise.all(seeds.map((seed) => toss(seed)));

      const heads = once.filter((text) => text === 'heads').length;
      expect([heads > 125, heads < 175]).toEqual([true, true]);
      expect(again).toEqual(once);
    });

    test('chooses anew at each step of a conversation', async () => {
      const further = [{ role: 'assistant', content: 'heads' }, user('Another coin.')];

      const pairs = await Promise.all(
        seeds
          .slice(0, 40)
          .map(async (seed) => `${await toss(seed)} ${await toss(seed, ...further)}`),
      );

      expect(new Set(pairs)).toEqual(
        new Set(['heads heads', 'heads tails', 'tails heads', 'tails tails']),
      );
    });

    test('goes by what it was shown last', async () => {
      const shown = { role: 'tool', content: 'It stands on its edge.' };

      await expect(toss(1, said, shown)).resolves.toBe('Neither.');
    });

    test('says so when it has no state for that', async () => {
      const shown = { role: 'tool', content: 'It is gone.' };

      const response = await ask([user('Toss a coin.'), said, shown]);

      expect([response.status, (await json(response)).error.message]).toEqual([
        500,
        'the policy of "Toss" has no state for "It is gone."',
      ]);
    });
  });

  test('says so when an entry has no further reply', async () => {
    const response = await ask([user('the shop'), said, said, said]);

    expect(response.status).toBe(500);
    expect((await json(response)).error.message).toBe(
      'script ran out of replies: "the shop" has 3, and reply 3 was asked for',
    );
  });

  test('says so when no entry matches', async () => {
    const response = await ask([user('Sing.')]);

    expect(response.status).toBe(500);
    expect((await json(response)).error.message).toBe(
      'no entry of the script matches "Sing."; it has "the shop", "slow", "busy", "noise", "What is", "Toss"',
    );
  });

  test('answers the error status of a reply with its Retry-After', async () => {
    const response = await ask([user('busy')]);

    expect([response.status, response.headers.get('retry-after')]).toEqual([429, '7']);
  });

  test('answers the body of a reply as it stands', async () => {
    const response = await ask([user('noise')]);

    expect([response.status, await response.text()]).toEqual([200, '<html>']);
  });

  test.each([
    [{ stream: true }, 'the scripted model does not stream'],
    [{ messages: 'none' }, 'not a chat completion request'],
  ])('refuses %j', async (more, message) => {
    const response = await ask([user('the shop')], more);

    expect([response.status, (await json(response)).error.message]).toEqual([400, message]);
  });

  test('counts requests that arrive, and answers that leave', async () => {
    await (await ask([user('the shop')])).text();
    await (await ask([user('the shop')])).text();
    await (await ask([user('Sing.')])).text();

    const stats = await (await fetch(`${endpoint.address}/stats`)).json();

    expect(stats).toMatchObject({
      requests: 3,
      answered: 3,
      open: 0,
      byEntry: {
        'the shop': { requests: 2, answered: 2, open: 0 },
        slow: { requests: 0, answered: 0, open: 0 },
      },
    });
  });

  test('counts a request whose client went away before the answer', async () => {
    const client = new AbortController();
    const asked = ask([user('slow')], {}, client.signal).catch(() => 'gone');
    while (endpoint.stats().byEntry['slow']?.open !== 1) await new Promise(setImmediate);
    client.abort();
    await asked;
    while (endpoint.stats().open !== 0) await new Promise(setImmediate);

    expect(endpoint.stats()).toMatchObject({ requests: 1, answered: 0 });
  });

  test.each<[ScriptedFault, number, string | null]>([
    [{ kind: 'rate_limit', retryAfterS: 3, times: 2 }, 429, '3'],
    [{ kind: 'unauthorized', times: 2 }, 401, null],
    [{ kind: 'status', status: 503, times: 2 }, 503, null],
  ])('fails the first two requests with %j', async (fault, status, retryAfter) => {
    endpoint.setFault(fault);

    const responses = [];
    for (let n = 0; n < 3; n += 1) responses.push(await ask([user('the shop')]));

    expect(responses.map((response) => response.status)).toEqual([status, status, 200]);
    expect(responses[0]?.headers.get('retry-after')).toBe(retryAfter);
    expect(endpoint.stats().requests).toBe(3);
  });

  test('answers garbage until told otherwise', async () => {
    endpoint.setFault({ kind: 'garbage' });
    const during = await (await ask([user('the shop')])).text();
    endpoint.setFault(null);
    const after = await ask([user('the shop')]);

    expect(during).toBe('<html>not a completion</html>');
    expect((await json(after)).choices[0]?.message.content).toBe('Looking.');
  });

  test('lets go of clients that it left hanging when it closes', async () => {
    endpoint.setFault({ kind: 'hang' });
    const asked = ask([user('the shop')]).then(
      () => 'answered',
      () => 'cut',
    );
    while (endpoint.stats().open !== 1) await new Promise(setImmediate);

    await endpoint.close();

    await expect(asked).resolves.toBe('cut');
  });
});

describe('readScript', () => {
  test.each([
    [{ entries: [] }, 'entries: Too small: expected array to have >=1 items'],
    [
      { entries: [{ when: 'a', replies: [{}] }] },
      'entries[0].replies[0]: a reply needs `text`, `solve`, `toolCalls`, `status` or `body`',
    ],
    [
      { entries: [{ when: 'a', replies: [{ text: 'a', say: 'b' }] }] },
      'entries[0].replies[0]: Unrecognized key: "say"',
    ],
    [
      {
        entries: [
          {
            when: 'a',
            replies: [{ toolCalls: [{ name: 't', arguments: {}, rawArguments: '' }] }],
          },
        ],
      },
      'entries[0].replies[0].toolCalls[0]: give `arguments` or `rawArguments`, not both',
    ],
    [{ entries: [{ when: 'a' }] }, 'entries[0]: give exactly one of `replies` and `policy`'],
    [
      {
        entries: [
          { when: 'a', policy: [{ seen: 'b', choices: [{ weight: 0, reply: { text: 'c' } }] }] },
        ],
      },
      'entries[0].policy[0].choices[0].weight: Too small: expected number to be >0',
    ],
    [
      { entries: [{ when: 'a', replies: [{ text: '5', solve: 'sum' }] }] },
      'entries[0].replies[0]: give `text` or `solve`, not both',
    ],
  ])('names the field in %j', (value, message) => {
    expect(() => checkScript(value, 's.yaml')).toThrow(`s.yaml is not a script: ${message}`);
  });

  test('names the file that is not YAML, and the file that is not there', () => {
    const dir = mkdtempSync(join(tmpdir(), 'script-'));
    try {
      const file = join(dir, 's.yaml');
      writeFileSync(file, 'entries: [\n');

      expect(() => readScript(file)).toThrow(`${file} is not YAML`);
      expect(() => readScript(join(dir, 'none.yaml'))).toThrow(
        `cannot read the script ${join(dir, 'none.yaml')}`,
      );
    } finally {
      rmSync(dir, { recursive: true });
    }
  });
});
