import { UsageError } from '../../../client/errors';
import { startForks } from '../../../client/api/fork';
import type { ForkRequest } from '../../../client/api/fork';
import { readLineage } from '../../../client/api/lineage';
import { readEntries } from '../../../rollouts/trajectory/chain';
import type { RolloutInput } from '../../../contracts/rollout';
import { forkWorld, hudTask, recordRollout, task } from './fork-world';
import type { ForkWorld } from './fork-world';

describe('forking a rollout', () => {
  let world: ForkWorld;
  beforeEach(async () => {
    world = await forkWorld();
  });
  afterEach(() => world.close());

  const rolloutId = 'rollout/b/t/0';
  const fork = (over: Partial<ForkRequest> = {}) =>
    startForks(world.rollouts, {
      rolloutId,
      at: 2,
      count: 1,
      changes: {},
      priceFile: '/nowhere',
      ...over,
    });
  const inputs = () => world.started.map(({ input }) => input as RolloutInput);

  it('starts a rollout from the checkpoint, with its transcript, what was spent and a seed of its own', async () => {
    const { heads } = await recordRollout(world);

    const { rolloutIds, chosen } = await fork();

    expect(rolloutIds).toEqual([`${rolloutId}/e2.1`]);
    expect(chosen.way).toBe('snapshot');
    expect(world.started).toMatchObject([
      {
        workflow: 'rollout',
        workflowId: `${rolloutId}/e2.1`,
        input: {
          model: { name: 'openai/small', settings: { seed: 6 } },
          from: {
            parentRolloutId: rolloutId,
            step: 2,
            version: 'ver_2',
            trajectory: heads[1],
            way: 'snapshot',
            depth: 1,
            spent: { tokens: 3, workedS: 1 },
          },
        },
      },
    ]);
    expect(await world.ledger.rollout(`${rolloutId}/e2.1`)).toMatchObject({
      parentRolloutId: rolloutId,
      parentStep: 2,
      result: null,
    });
  });

  it('adds more of them when it is asked again, each once', async () => {
    await recordRollout(world);

    const asked = await Promise.all([fork({ count: 2 }), fork({ count: 3 })]);

    const ids = asked.flatMap((one) => one.rolloutIds);
    expect(ids.toSorted()).toEqual([1, 2, 3, 4, 5].map((k) => `${rolloutId}/e2.${k}`));
    expect(new Set(inputs().map(({ identity }) => identity)).size).toBe(5);
  });

  it('takes another model, whose provider says where it answers', async () => {
    await recordRollout(world);

    await fork({ changes: { model: 'openai/large' } });
    await fork({ changes: { model: 'anthropic/other', settings: { temperature: 1, seed: 9 } } });

    expect(inputs().map(({ model }) => model)).toEqual([
      { name: 'openai/large', baseUrl: 'http://one/v1', settings: { seed: 6 }, price: null },
      { name: 'anthropic/other', settings: { seed: 9, temperature: 1 }, price: null },
    ]);
  });

  it('says a word to the agent, on the very transcript of the parent', async () => {
    const { heads } = await recordRollout(world);

    await fork({ message: 'Look again.' });

    const head = inputs()[0]?.from?.trajectory ?? '';
    expect(await readEntries(world.documents, head, heads[1])).toEqual([
      { type: 'person', step: 2, text: 'Look again.' },
    ]);
  });

  it('shows another observation, and shares what came before it', async () => {
    const { heads } = await recordRollout(world, { said: ['ls', 'cat a', 'cat b', 'done'] });

    await fork({ at: 3, edits: [{ call: '2.1', text: 'nothing' }] });

    const [input] = inputs();
    const head = input?.from?.trajectory ?? '';
    const entries = await readEntries(world.documents, head);
    expect(entries.filter(({ type }) => type === 'observation')).toMatchObject([
      { step: 1, observation: { content: [{ text: 'saw ls' }] } },
      { step: 2, observation: { content: [{ text: 'nothing' }] } },
    ]);
    expect(await readEntries(world.documents, head, heads[1])).toHaveLength(2);
    const { origin } = await readLineage(world, `${rolloutId}/e3.1`, entries);
    expect(origin).toEqual({
      rolloutId,
      step: 3,
      way: 'snapshot',
      version: 'ver_3',
      said: [],
      edited: [{ step: 2, call: 1, name: 'bash', before: 'saw cat a', after: 'nothing' }],
    });
  });

  it('refuses to guess which call is meant', async () => {
    await recordRollout(world, { said: ['ls', 'cat a', 'cat b', 'done'] });

    await expect(fork({ at: 3, edits: [{ call: 'call_1', text: '' }] })).rejects.toThrow(
      'several calls have that id; say which by its number, one of 1.1, 2.1',
    );
    await expect(fork({ at: 3, edits: [{ call: '3.1', text: '' }] })).rejects.toThrow(
      '--edit-observation 3.1: no such call before that step; there are 1.1 (bash, call_1), 2.1 (bash, call_1)',
    );
    expect(world.started).toEqual([]);
  });

  it('goes by replay where there is no checkpoint, with what the steps before have used', async () => {
    const { heads } = await recordRollout(world);

    const { chosen } = await fork({ at: 3 });

    expect(chosen).toEqual({ way: 'replay', why: 'there is no checkpoint before step 3' });
    expect(inputs()[0]?.from).toMatchObject({
      version: '',
      trajectory: heads[2],
      replay: heads[2],
      way: 'replay',
      spent: { tokens: 6, costUsd: 0, workedS: 2 },
    });
  });

  it('goes by replay where the checkpoint has expired, unless a snapshot was asked for', async () => {
    await recordRollout(world);
    world.expired.add('ver_2');

    const { chosen } = await fork();

    expect(chosen).toEqual({ way: 'replay', why: 'the checkpoint before step 2 has expired' });
    expect(inputs()[0]?.from).toMatchObject({ way: 'replay', version: '' });
    await expect(fork({ way: 'snapshot' })).rejects.toThrow(
      '--at 2: of rollout/b/t/0 the checkpoint before step 2 has expired',
    );
  });

  it('finds the version of a step that the result no longer lists', async () => {
    const { result, heads } = await recordRollout(world);
    await world.ledger.declareRollouts([]);
    const old = { ...result, rolloutId: 'rollout/b/t/1', checkpoints: [] };
    await recordRollout(world, { rolloutId: 'rollout/b/u/0' });
    await world.blobs.putIfAbsent(
      'inputs/rollout/b/t/1',
      world.blobs.named.get('inputs/rollout/b/t/0') ?? Buffer.alloc(0),
    );
    await world.ledger.recordResult(old);

    await fork({ rolloutId: 'rollout/b/t/1', at: 2 });

    expect(inputs()[0]?.from).toMatchObject({ version: 'ver_2', trajectory: heads[1] });
  });

  it('replays what was really observed, however its parent was shown it', async () => {
    const { heads } = await recordRollout(world, { said: ['ls', 'cat a', 'cat b', 'done'] });
    await fork({ at: 3, way: 'replay', edits: [{ call: '1.1', text: 'edited' }] });
    const [child] = inputs();
    if (!child) throw new Error('nothing was started');
    await recordRollout(world, { rolloutId: child.rolloutId, input: child, said: ['pwd', 'done'] });

    await fork({ rolloutId: child.rolloutId, at: 4 });

    const again = inputs()[1]?.from;
    expect(again).toMatchObject({ version: '', depth: 2, way: 'replay' });
    const shown = await readEntries(world.documents, again?.trajectory ?? '');
    const real = await readEntries(world.documents, again?.replay ?? '');
    const seen = (entries: typeof shown) =>
      entries.flatMap((e) => (e.type === 'observation' ? [e.observation.content[0]] : []));
    expect(seen(shown)).toMatchObject([
      { text: 'edited' },
      { text: 'saw cat a' },
      { text: 'saw pwd' },
    ]);
    expect(seen(real)).toMatchObject([
      { text: 'saw ls' },
      { text: 'saw cat a' },
      { text: 'saw pwd' },
    ]);
    expect(child.from?.replay).toBe(heads[2]);
  });

  it('begins a replay of a forked rollout in the version that it was forked from', async () => {
    await recordRollout(world, { said: ['ls', 'cat a', 'cat b', 'done'] });
    await fork({ at: 2 });
    const [child] = inputs();
    if (!child) throw new Error('nothing was started');
    await recordRollout(world, { rolloutId: child.rolloutId, input: child, said: ['pwd', 'done'] });

    await fork({ rolloutId: child.rolloutId, at: 3 });

    expect(inputs()[1]?.from).toMatchObject({ way: 'replay', version: 'ver_2' });
  });

  it.each<[string, Partial<ForkRequest>, string]>([
    [
      'a step that was not made',
      { at: 9 },
      '--at 9: rollout/b/t/0 has no such step; it has made 3',
    ],
    [
      'a snapshot that was not taken',
      { at: 3, way: 'snapshot' },
      '--at 3: of rollout/b/t/0 there is no checkpoint before step 3 (it has them before 1, 2); --way replay needs none',
    ],
    ['a model without a provider', { changes: { model: 'large' } }, '--model large:'],
  ])('refuses %s', async (_what, over, message) => {
    await recordRollout(world);

    const asked = fork(over);

    await expect(asked).rejects.toThrow(UsageError);
    await expect(asked).rejects.toThrow(message);
    expect(world.started).toEqual([]);
  });

  it('refuses a model without a price where a cost limit holds', async () => {
    await recordRollout(world, { input: { limits: { maxCostUsd: 1 } } });

    await expect(fork({ changes: { model: 'openai/large' } })).rejects.toThrow(
      'a cost limit (limits.maxCostUsd) needs the price of openai/large',
    );
  });

  it('goes 100 deep and no deeper', async () => {
    const from = (depth: number) => ({
      parentRolloutId: 'rollout/b/t/9',
      step: 1,
      version: 'ver_0',
      trajectory: '',
      depth,
      spent: { tokens: 0, costUsd: 0, workedS: 0 },
    });
    await recordRollout(world, { input: { from: from(99) } });
    await recordRollout(world, { rolloutId: 'rollout/b/t/1', input: { from: from(100) } });

    await fork();
    await expect(fork({ rolloutId: 'rollout/b/t/1' })).rejects.toThrow(
      'rollout/b/t/1 is a fork 100 deep already',
    );

    expect(inputs().map((input) => input.from?.depth)).toEqual([100]);
  });

  it('replays a HUD task, and refuses its snapshots unless a verifier alone gives the reward', async () => {
    await recordRollout(world, { task: hudTask });
    await recordRollout(world, {
      rolloutId: 'rollout/b/v/0',
      task: { ...hudTask, verifier: task.verifier },
    });

    const { chosen } = await fork();
    await expect(fork({ way: 'snapshot' })).rejects.toThrow('its own grade is part of the reward');
    await fork({ rolloutId: 'rollout/b/v/0', way: 'snapshot' });

    expect(chosen.way).toBe('replay');
    expect(inputs().map(({ from }) => [from?.way, from?.version])).toEqual([
      ['replay', ''],
      ['snapshot', 'ver_2'],
    ]);
  });
});
