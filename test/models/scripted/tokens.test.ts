import type { ModelMessage } from '../../../models/model';
import { createModels } from '../../../models/router';
import { startScripted } from '../../../models/scripted/server';
import type { ScriptedReply } from '../../../models/scripted/script';
import { nowhere } from '../dialects';

const first: ScriptedReply = {
  text: 'Looking around.',
  toolCalls: [{ name: 'bump', arguments: { by: 3, why: 'to see' } }],
};
const second: ScriptedReply = { toolCalls: [{ name: 'bump', arguments: { by: 1 } }] };
const third: ScriptedReply = { text: 'Done.' };

/** Goes through the replies as an agent does. */
async function turnsOf(replies: ScriptedReply[]) {
  const endpoint = await startScripted({ script: { entries: [{ when: 'Count', replies }] } });
  const models = createModels({ baseUrls: nowhere, keys: [] });
  const settings = { extraBody: { return_token_ids: true } };
  const model = { name: 'scripted', baseUrl: `${endpoint.address}/v1`, settings, price: null };
  const { signal } = new AbortController();
  const messages: ModelMessage[] = [
    { role: 'system', text: 'Be brief.' },
    { role: 'user', parts: [{ type: 'text', text: 'Count to 4.' }] },
  ];
  const turns = [];
  try {
    for (const _ of replies) {
      const request = { key: 'k', model, messages, tools: [], timeoutS: 5 };
      const reply = await models.complete(request, { signal });
      turns.push(reply);
      messages.push({ role: 'assistant', text: reply.text, toolCalls: reply.toolCalls });
      for (const { id: toolCallId, name } of reply.toolCalls) {
        const parts = [{ type: 'text' as const, text: 'so many' }];
        messages.push({ role: 'tool', toolCallId, name, isError: false, parts });
      }
    }
  } finally {
    await endpoint.close();
  }
  return turns;
}

/** Whether each turn after the first begins with all of the turn before. */
const extended = (turns: { promptTokenIds?: number[]; tokenIds?: number[] }[]): boolean[] =>
  turns.slice(1).map(({ promptTokenIds = [] }, n) => {
    const before = [...(turns[n]?.promptTokenIds ?? []), ...(turns[n]?.tokenIds ?? [])];
    return before.length > 0 && before.every((id, at) => promptTokenIds[at] === id);
  });

describe('token ids of the scripted model', () => {
  test('of a turn begin with all of the turn before, and have their log-probabilities', async () => {
    const turns = await turnsOf([first, second, third]);

    expect(extended(turns)).toEqual([true, true]);
    for (const { promptTokenIds, tokenIds = [], logprobs, usage } of turns) {
      expect(logprobs).toHaveLength(tokenIds.length);
      expect(usage).toMatchObject({
        promptTokens: promptTokenIds?.length,
        completionTokens: tokenIds.length,
      });
    }
  });

  test('do so no more after a reply that is split anew', async () => {
    const turns = await turnsOf([first, { ...second, resplit: true }, third]);

    expect(extended(turns)).toEqual([true, false]);
  });

  test('are not there unless they are asked for', async () => {
    const endpoint = await startScripted({
      script: { entries: [{ when: 'Count', replies: [third] }] },
    });
    try {
      const answer = await fetch(`${endpoint.address}/v1/chat/completions`, {
        method: 'POST',
        body: JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'Count' }] }),
      });

      expect(await answer.text()).not.toMatch(/token_ids|logprob/);
    } finally {
      await endpoint.close();
    }
  });
});
