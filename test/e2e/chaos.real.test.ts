import { Chaos } from './chaos';
import { useCrashStack } from './use-crash-stack';

/** Two seeds of what `npm run chaos` does with twenty. */

const stack = useCrashStack();
let chaos: Chaos;

beforeAll(async () => {
  chaos = await Chaos.on(stack);
});
afterAll(() => chaos.close());

describe('a tree search whose worker and denv server are killed at random moments', () => {
  it.each([1, 2])(
    'ends complete, each leaf once and rewarded as without kills, and leaves nothing (seed %d)',
    async (seed) => {
      const { kills, rewards, wrong } = await chaos.run(seed);

      expect(wrong).toEqual([]);
      expect(rewards).toHaveLength(9);
      expect(kills).not.toHaveLength(0);
    },
  );
});
