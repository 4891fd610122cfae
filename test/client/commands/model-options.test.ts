import { parseModelArgs } from '../../../client/commands/model-options';

describe('--model-arg', () => {
  it('takes known settings into their fields and the rest into the request body', () => {
    const args = [
      'temperature=0.7',
      'top_p=0.9',
      'seed=3',
      'max_tokens=100',
      'system_prompt=Be brief = good',
      'top_k=20',
      'stop=["a"]',
      'mode=fast',
    ];

    expect(parseModelArgs(args)).toEqual({
      temperature: 0.7,
      topP: 0.9,
      seed: 3,
      maxOutputTokens: 100,
      systemPrompt: 'Be brief = good',
      extraBody: { top_k: 20, stop: ['a'], mode: 'fast' },
    });
  });

  it('keeps a system prompt that looks like a number as text', () => {
    expect(parseModelArgs(['system_prompt=42'])).toEqual({ systemPrompt: '42' });
  });

  it.each([
    ['temperature', '--model-arg temperature: give name=value'],
    ['=1', '--model-arg =1: give name=value'],
    ['temperature=hot', '--model-arg temperature: Invalid input: expected number, received string'],
    ['top_p=2', '--model-arg top_p: Too big'],
  ])('refuses %s', (arg, message) => {
    expect(() => parseModelArgs([arg])).toThrow(message);
  });
});
