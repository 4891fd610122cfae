import { Chaos } from './chaos';
import { CrashStack } from './crash-stack';
import { leftBehind } from './left-behind';

/** Two seeds of what `npm run chaos` does with twenty. */

const stack = new CrashStack();
let chaos: Chaos;

beforeAll(async () => {
  await stack.up();
  chaos = await Chaos.on(stack);
}, 120_000);
afterAll(async () => {
  try {
    await chaos?.close();
    await stack.close();
  } finally {
    stack.remove();
  }
}, 120_000);

describe('a tree search whose worker and denv server are killed at random moments', () => {
  it.each([1, 2])(
    'ends complete, each leaf once and rewarded as without kills, and leaves nothing (seed %d)',
    async (seed) => {
      const { kills, rewards, wrong } = await chaos.run(seed);

      expect(wrong).toEqual([]);
      expect(rewards).toHaveLength(9);
      expect(kills).not.toHaveLength(0);
    },
    180_000,
  );

  it('leaves no mount, loop device, cgroup or process of this home', async () => {
    await stack.down();

    expect(leftBehind(stack.home)).toEqual([]);
  }, 60_000);
});
