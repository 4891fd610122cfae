import { calls } from '../../fakes/fake-model';
import type { Say } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';

/** A step that calls a tool, with token ids. */
const step = (promptTokenIds: number[], tokenIds: number[]): Say => ({
  ...(calls(['look', {}]) as object),
  promptTokenIds,
  tokenIds,
});

describe('token ids of a rollout', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  test.each([
    ['each turn extends the one before', [1, 2, 3, 4], [1, 2, 3, 4, 5, 6], []],
    ['a turn that does not is named', [1, 2, 9], [1, 2, 9, 5, 6], [2]],
    ['and so is each one', [1, 2, 9], [1, 2, 3, 4, 5], [2, 3]],
  ])('%s', async (_what, second, third, broken) => {
    const last = { text: 'done', promptTokenIds: third, tokenIds: [7] };
    const model = [step([1, 2], [3]), step(second, [5]), last];

    const { result, input } = await env.run({}, { model });

    expect(result.tokens).toEqual({ turns: 3, broken });
    const [recorded] = await env.ledger.results([input.rolloutId]);
    expect(recorded?.tokens).toEqual({ turns: 3, broken });
  });

  test('are not spoken of where the endpoint gives none', async () => {
    const { result } = await env.run({}, { model: [{ text: 'done' }] });

    expect(result.tokens).toBeNull();
  });
});
