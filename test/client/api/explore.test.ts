import { startExploration } from '../../../client/api/explore';
import type { ExploreRequest } from '../../../client/api/explore';
import type { ExplorationInput } from '../../../contracts/exploration';
import { PackedTask } from '../../../contracts/task';
import { forkWorld, hudTask, recordRollout } from './fork-world';
import type { ForkWorld } from './fork-world';

describe('starting an exploration', () => {
  let world: ForkWorld;
  beforeEach(async () => {
    world = await forkWorld();
  });
  afterEach(() => world.close());

  const rolloutId = 'rollout/b/t/0';
  const explore = (over: Partial<ExploreRequest> = {}) =>
    startExploration(world.rollouts, {
      rolloutId,
      strategy: { name: 'flat', count: 3, depth: 1, branch: 1, every: 1, at: 2 },
      limits: { concurrency: 8, maxContinuations: 100, maxDepth: 100 },
      changes: {},
      priceFile: '/nowhere',
      ...over,
    });
  const inputs = () => world.started.map(({ input }) => input as ExplorationInput);

  it('tells the workflow the root as it is now', async () => {
    await recordRollout(world);

    const { exploreId, chosen } = await explore();

    expect(exploreId).toBe('explore/rollout/b/t/0/1');
    expect(chosen.way).toBe('snapshot');
    expect(world.started).toMatchObject([
      {
        workflow: 'explore',
        workflowId: exploreId,
        input: {
          rootNode: { rolloutId, depth: 0, state: 'scored', reward: 0.5, checkpoints: [1, 2] },
          seed: 0,
        },
      },
    ]);
  });

  it('gives each exploration a number and seeds of its own', async () => {
    await recordRollout(world);

    await Promise.all([explore(), explore()]);
    await explore({ seed: 7 });

    expect(
      inputs()
        .map(({ exploreId }) => exploreId.slice(-1))
        .toSorted(),
    ).toEqual(['1', '2', '3']);
    expect(inputs().map(({ seed }) => seed)).toEqual([0, 10_000, 7]);
  });

  it('merges in what continuations do differently', async () => {
    await recordRollout(world);

    await explore({ changes: { settings: { temperature: 1 } }, way: 'replay' });

    const [input] = inputs();
    expect(input?.root.model.settings).toEqual({ seed: 5, temperature: 1 });
    const packed = PackedTask.parse(
      JSON.parse((await world.blobs.get(input?.root.taskRef ?? '')).toString()),
    );
    expect(packed.task.continuation).toBe('replay');
    expect(input?.rootNode.checkpoints).toEqual([1, 2, 3]);
  });

  it('goes on by replay with a HUD task, from every step', async () => {
    await recordRollout(world, { task: hudTask });

    const { chosen } = await explore();

    expect(chosen.way).toBe('replay');
    expect(inputs()[0]?.rootNode.checkpoints).toEqual([1, 2, 3]);
  });

  it.each<[string, Partial<ExploreRequest>, string]>([
    [
      'a step without a checkpoint',
      { strategy: { name: 'flat', count: 3, depth: 1, branch: 1, every: 1, at: 3 } },
      '--at 3: rollout/b/t/0 has no checkpoint before that step; it has them before 1, 2',
    ],
    [
      'a budget in dollars for a model without a price',
      { limits: { concurrency: 1, maxContinuations: 1, maxDepth: 1, maxCostUsd: 1 } },
      'needs the price of openai/small',
    ],
    ['a rollout that is not there', { rolloutId: 'rollout/b/t/7' }, 'there is no rollout'],
  ])('refuses %s, and starts nothing', async (_what, over, message) => {
    await recordRollout(world);

    await expect(explore(over)).rejects.toThrow(message);

    expect(world.started).toEqual([]);
  });

  it('refuses a checkpoint that has expired', async () => {
    await recordRollout(world);
    world.expired.add('ver_2');

    await expect(explore()).rejects.toThrow('the checkpoint before step 2 has expired');

    expect(world.started).toEqual([]);
  });

  it('says what to do about a rollout without checkpoints', async () => {
    const { result } = await recordRollout(world);
    await world.blobs.putIfAbsent(
      'inputs/rollout/b/t/1',
      world.blobs.named.get(`inputs/${rolloutId}`) ?? Buffer.alloc(0),
    );
    await world.ledger.recordResult({ ...result, rolloutId: 'rollout/b/t/1', checkpoints: [] });

    await expect(explore({ rolloutId: 'rollout/b/t/1' })).rejects.toThrow(
      'has no checkpoints to fork; run it with --checkpoints step, or explore with --way replay',
    );
  });
});
