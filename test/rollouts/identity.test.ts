import { identityOf } from '../../rollouts/identity';

describe('the identity of a rollout', () => {
  const meaning = {
    taskDigest: 'd',
    agent: 'model' as const,
    model: 'openai/m',
    settings: { temperature: 0, seed: 1 },
    limits: { maxSteps: 5 },
    index: 0,
  };

  it('does not depend on the order of fields, on what is undefined, or on an address', () => {
    const same = {
      index: 0,
      baseUrl: 'http://127.0.0.1:1',
      limits: { maxSteps: 5, maxTokens: undefined },
      settings: { seed: 1, temperature: 0 },
      model: 'openai/m',
      agent: 'model' as const,
      taskDigest: 'd',
    };

    expect(identityOf(same)).toBe(identityOf(meaning));
  });

  it.each([
    [{ taskDigest: 'e' }],
    [{ agent: 'nop' as const }],
    [{ model: 'openai/n' }],
    [{ settings: { temperature: 0.5, seed: 1 } }],
    [{ limits: { maxSteps: 6 } }],
    [{ index: 1 }],
    [{ from: { parentRolloutId: 'r', step: 1, trajectory: 't' } }],
  ])('changes with %j', (change) => {
    expect(identityOf({ ...meaning, ...change })).not.toBe(identityOf(meaning));
  });
});
