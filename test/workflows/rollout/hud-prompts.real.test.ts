import type { RolloutInput } from '../../../contracts/rollout';
import type { FakeDenv } from '../../fakes/fake-denv';
import { hudResult } from '../../fakes/fake-denv';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';
import { answering, done, hudTask } from './hud-task';

describe('prompts of a HUD task', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  const historyOf = async ({ rolloutId }: RolloutInput): Promise<string> =>
    JSON.stringify(await env.temporal.client.workflow.getHandle(rolloutId).fetchHistory());

  const prompting = (prompt: unknown): FakeDenv =>
    answering('hud/start', () => hudResult({ prompt }));

  test('a conversation is shown as one, after the system prompt', async () => {
    const denv = prompting([
      { role: 'system', content: 'Sums only.' },
      { role: 'user', content: [{ type: 'text', text: '1 + 1?' }] },
      { role: 'assistant', content: '2' },
      {
        role: 'critic',
        content: [
          { type: 'text', text: 'And this?' },
          { type: 'image', data: 'AAEC', mimeType: 'image/png' },
        ],
      },
    ]);
    const choice = { name: 'm', settings: { systemPrompt: 'Be brief.' }, price: null };
    const say = (): { text: string } => ({ text: '4' });

    const { fakes } = await env.run(
      { ...hudTask(), model: choice },
      { denv, model: [say(), say()] },
    );

    expect(fakes.model.requests[0]?.messages).toEqual([
      { role: 'system', text: 'Be brief.' },
      { role: 'system', text: 'Sums only.' },
      { role: 'user', parts: [{ type: 'text', text: '1 + 1?' }] },
      { role: 'assistant', text: '2', toolCalls: [] },
      {
        role: 'user',
        parts: [
          { type: 'text', text: 'And this?' },
          { type: 'image', mimeType: 'image/png', base64: 'AAEC' },
        ],
      },
    ]);
  });

  test.each([
    ['null', null, 'starts without a prompt'],
    [
      'an image by address',
      [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'http://x/y.png' } }] }],
      '"image_url"',
    ],
    ['a number', 4, 'neither a text nor a list'],
  ])('%s is the task: a model cannot be asked', async (_what, prompt, why) => {
    const { result } = await env.run(hudTask(), { denv: prompting(prompt), model: [] });

    expect(result).toMatchObject({ outcome: 'unscored', failure: { class: 'task' } });
    expect(result.failure?.message).toContain(why);
    expect(result.attempts).toHaveLength(1);
  });

  test('null is none for an agent that asks no model', async () => {
    const { result } = await env.run({ ...hudTask(), agent: 'nop' }, { denv: prompting(null) });

    expect(result).toMatchObject({ outcome: 'scored', reward: 1 });
  });

  test('10 MiB of it reach the model, and no history', async () => {
    const prompt = 'p'.repeat(10 * 1024 * 1024);

    const { fakes, input } = await env.run(hudTask(), { denv: prompting(prompt), model: done });

    expect(fakes.model.requests[0]?.messages[0]).toEqual({
      role: 'user',
      parts: [{ type: 'text', text: prompt }],
    });
    expect((await historyOf(input)).length).toBeLessThan(200_000);
  });
});
