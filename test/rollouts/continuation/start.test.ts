import { startForks } from '../../../client/api/fork';
import type { ForkRequest } from '../../../client/api/fork';
import { RolloutInput } from '../../../contracts/rollout';
import type { Continuation, RolloutResult } from '../../../contracts/rollout';
import type { TrajectoryEntry } from '../../../contracts/trajectory';
import { appendEntries, readEntries } from '../../../rollouts/trajectory/chain';
import { inputName } from '../../../rollouts/inputs';
import { declaredRollout } from '../../stores/results';
import { activitiesOnFakes, run } from '../../activities/on-fakes';
import { forkWorld, recordRollout, replyEntry, task } from '../../client/api/fork-world';
import type { ForkWorld } from '../../client/api/fork-world';

const rootId = 'rollout/b/t/0';

describe('what a fork of a step starts from', () => {
  let world: ForkWorld;
  beforeEach(async () => {
    world = await forkWorld();
  });
  afterEach(() => world.close());

  /** Forks a step as the command line does. */
  async function forkByCommand(
    rolloutId: string,
    at: ForkRequest['at'],
    over: Partial<ForkRequest> = {},
  ): Promise<RolloutInput> {
    const asked = { rolloutId, at, count: 1, changes: {}, priceFile: '/nowhere', ...over };
    await startForks(world.rollouts, asked);
    return RolloutInput.parse(world.started.at(-1)?.input);
  }

  /** Forks a step as an exploration of that rollout does, on the same records, under the id that the command line gave. */
  async function forkByExploration(parentId: string, like: RolloutInput): Promise<RolloutInput> {
    const bench = activitiesOnFakes();
    for (const [name, data] of [...world.blobs.named]) {
      if (name !== inputName(like.rolloutId)) await bench.blobs.putIfAbsent(name, data);
    }
    for (const [ref, data] of world.blobs.content) bench.blobs.content.set(ref, data);
    const ids = [...bench.blobs.named.keys()].map((name) => name.slice(inputName('').length));
    for (const result of await world.ledger.results(ids)) {
      bench.results.set(result.rolloutId, result);
    }
    const stored = bench.blobs.named.get(inputName(parentId));
    const root = RolloutInput.parse(JSON.parse(String(stored)));
    const { rolloutId, index, from } = like;
    const step = from?.step ?? 0;
    const forks = [{ rolloutId, index, seed: index, parentRolloutId: parentId, step }];
    const [made] = await run(bench.activities.declareContinuations, { root, forks });
    if (!made) throw new Error('nothing was declared');
    return made;
  }

  /** Forks both ways and expects the same. @returns where the fork starts */
  async function forkBoth(parentId: string, step: number): Promise<Continuation> {
    const input = await forkByCommand(parentId, step);
    expect(await forkByExploration(parentId, input)).toEqual(input);
    if (!input.from) throw new Error('it starts from nothing');
    return input.from;
  }

  const observed = async (head = ''): Promise<string[]> =>
    (await readEntries(world.documents, head)).flatMap((entry) =>
      entry.type === 'observation'
        ? entry.observation.content.map((part) => (part.type === 'text' ? part.text : part.type))
        : [],
    );
  const said = async (head = ''): Promise<string[]> =>
    (await readEntries(world.documents, head)).flatMap((entry) =>
      entry.type === 'person' ? [entry.text] : [],
    );

  const replayed = { ...task, continuation: 'replay' as const };
  const person = (step: number, text: string): TrajectoryEntry => ({ type: 'person', step, text });

  /** Records what became of a fork: `said` are the calls that it made itself. */
  const record = (input: RolloutInput, steps: string[], of = task) =>
    recordRollout(world, { rolloutId: input.rolloutId, task: of, input, said: steps });

  /** Gives a rollout the input of the root. */
  async function recordInput(rolloutId: string): Promise<void> {
    const stored = world.blobs.named.get(inputName(rootId));
    const input = { ...RolloutInput.parse(JSON.parse(String(stored))), rolloutId };
    await world.blobs.putIfAbsent(inputName(rolloutId), Buffer.from(JSON.stringify(input)));
  }

  /** Gives a rollout another transcript than the one it was recorded with. */
  async function recordAnew(result: RolloutResult, rolloutId: string): Promise<void> {
    await recordInput(rolloutId);
    await world.ledger.recordResult({ ...result, rolloutId });
  }

  it('is the version of the checkpoint by snapshot', async () => {
    const { heads, result } = await recordRollout(world);

    expect(await forkBoth(rootId, 2)).toEqual({
      parentRolloutId: rootId,
      step: 2,
      version: 'ver_2',
      trajectory: heads[1],
      way: 'snapshot',
      depth: 1,
      spent: result.checkpoints[1]?.spent,
    });
  });

  it('is the version beside the observation, where the result lists the checkpoint no more', async () => {
    const { heads, result } = await recordRollout(world);
    const old = 'rollout/b/t/1';
    await recordAnew({ ...result, checkpoints: [] }, old);

    expect(await forkBoth(old, 2)).toMatchObject({
      version: 'ver_2',
      trajectory: heads[1],
      spent: { tokens: 3, workedS: 1 },
    });
  });

  it('is the start of the task by replay, and the transcript is what the calls are compared with', async () => {
    const { heads } = await recordRollout(world, { task: replayed });

    expect(await forkBoth(rootId, 3)).toMatchObject({
      version: '',
      trajectory: heads[2],
      replay: heads[2],
      way: 'replay',
      spent: { tokens: 6, costUsd: 0, workedS: 2 },
    });
  });

  it.each([
    ['snapshot', task],
    ['replay', replayed],
  ])('has what a person said to the parent at that very step, by %s', async (_way, of) => {
    const { documents } = world;
    const { result, heads } = await recordRollout(world, { task: of });
    const told = await appendEntries(documents, heads[1] ?? '', [person(2, 'Look at b.')]);
    const steps = (await readEntries(documents, result.trajectory, heads[1])).slice(0, 2);
    const trajectory = await appendEntries(documents, told, steps);
    const parent = 'rollout/b/t/1';
    // Somebody had asked for the checkpoint before the word was said.
    await recordAnew({ ...result, trajectory }, parent);

    const from = await forkBoth(parent, 2);

    expect(from.trajectory).toBe(told);
    expect(from.replay).toBe(of === replayed ? told : undefined);
    expect(await said(from.trajectory)).toEqual(['Look at b.']);
  });

  it('keeps what was said to a fork when that fork is forked, with edited observations too', async () => {
    await recordRollout(world, { task: replayed, said: ['ls', 'cat a', 'cat b', 'done'] });
    const edits = [{ call: '1.1', text: 'nothing' }];
    const child = await forkByCommand(rootId, 3, { message: 'Look again.', edits });
    await record(child, ['pwd', 'done'], replayed);

    const from = await forkBoth(child.rolloutId, 4);

    expect(await observed(from.trajectory)).toEqual(['nothing', 'saw cat a', 'saw pwd']);
    expect(await observed(from.replay)).toEqual(['saw ls', 'saw cat a', 'saw pwd']);
    expect(await said(from.trajectory)).toEqual(['Look again.']);
    expect(await said(from.replay)).toEqual(['Look again.']);
    expect(from).toMatchObject({ version: '', depth: 2 });
  });

  it('begins a replay of a fork by snapshot in the version of that fork', async () => {
    await recordRollout(world, { task: replayed, said: ['ls', 'cat a', 'cat b', 'done'] });
    const child = await forkByCommand(rootId, 2, { way: 'snapshot' });
    await record(child, ['pwd', 'ls b', 'done'], replayed);

    const from = await forkBoth(child.rolloutId, 4);

    expect(from).toMatchObject({ way: 'replay', version: 'ver_2', replay: from.trajectory });
  });

  it('begins before that version, where the step is one that the fork has from its parent', async () => {
    await recordRollout(world, { task: replayed, said: ['ls', 'cat a', 'cat b', 'done'] });
    const edits = [{ call: '1.1', text: 'nothing' }];
    const child = await forkByCommand(rootId, 3, { way: 'snapshot', edits });
    await record(child, ['pwd', 'done'], replayed);

    const from = await forkBoth(child.rolloutId, 2);

    expect(from).toMatchObject({ way: 'replay', version: '', step: 2 });
    expect(await observed(from.trajectory)).toEqual(['nothing']);
    expect(await observed(from.replay)).toEqual(['saw ls']);
    const grandchild = await forkByCommand(child.rolloutId, 2);
    await record(grandchild, ['pwd', 'done'], replayed);
    expect(await forkBoth(grandchild.rolloutId, 3)).toMatchObject({ version: '', depth: 3 });
  });

  it('is the checkpoint that a rollout went back to, and the transcript since', async () => {
    const { documents } = world;
    const { result, heads } = await recordRollout(world, {
      said: ['ls', 'cat a', 'cat b', 'done'],
    });
    // The host lost the sandbox while the model was asked for step 4.
    const restored: TrajectoryEntry = { type: 'restored', step: 3, version: 'ver_3', why: 'lost' };
    const back = await appendEntries(documents, heads[2] ?? '', [restored]);
    const trajectory = await appendEntries(documents, back, [replyEntry(4, 'done')]);
    const parent = 'rollout/b/t/1';
    await recordAnew({ ...result, trajectory }, parent);

    expect(await forkBoth(parent, 3)).toMatchObject({ version: 'ver_3', trajectory: heads[2] });
    const after = await forkByCommand(parent, 4);
    expect(after.from).toMatchObject({ way: 'replay', trajectory: back, replay: back });
  });

  it('is nothing, for a step that an attempt made whose sandbox was lost for good', async () => {
    const { documents } = world;
    const { result } = await recordRollout(world, { task: replayed });
    const opening = await appendEntries(documents, '', [{ type: 'prompt', text: 'Do it.' }]);
    const trajectory = await appendEntries(documents, opening, [replyEntry(4, 'done')]);
    const parent = 'rollout/b/t/1';
    await recordAnew({ ...result, steps: 4, checkpoints: [], trajectory }, parent);

    await expect(forkByCommand(parent, 2)).rejects.toThrow('has no such step; it has made 4');
    expect(await forkBoth(parent, 4)).toMatchObject({ trajectory: opening, version: '' });
  });

  it('has nothing of what came of a step that rolled back to an earlier one', async () => {
    const { documents } = world;
    const { result, heads } = await recordRollout(world, { task: replayed });
    const restored: TrajectoryEntry = {
      type: 'restored',
      step: 1,
      version: 'ver_1',
      why: 'rolled',
    };
    const [reply, ...seen] = await readEntries(documents, heads[2] ?? '', heads[1]);
    if (!reply) throw new Error('the step has no reply');
    const trajectory = await appendEntries(documents, heads[1] ?? '', [reply, restored, ...seen]);
    const parent = 'rollout/b/t/1';
    await recordAnew({ ...result, trajectory }, parent);

    expect(await forkBoth(parent, 2)).toMatchObject({ trajectory: heads[1], replay: heads[1] });
  });

  it.each<[string, ForkRequest['at']]>([
    ['of the last step', 'last'],
    ['of the step that it makes next', 3],
  ])('is the checkpoint that a running rollout answers, %s', async (_what, at) => {
    const { result, heads } = await recordRollout(world);
    const parent = 'rollout/b/t/1';
    await recordInput(parent);
    await world.ledger.declareRollouts([declaredRollout({ rolloutId: parent })]);
    const taken = {
      step: 3,
      version: '',
      trajectory: heads[2] ?? '',
      spent: { tokens: 6, costUsd: 0, workedS: 2 },
    };
    const { trajectory } = result;
    world.running.set(parent, { status: { step: 2, trajectory, checkpoints: [] }, taken });

    const { from } = await forkByCommand(parent, at);

    expect(from).toEqual({
      ...taken,
      parentRolloutId: parent,
      way: 'replay',
      replay: heads[2],
      depth: 1,
    });
  });

  it('is read anew, where a running rollout has made the step meanwhile', async () => {
    const { result, heads } = await recordRollout(world);
    const parent = 'rollout/b/t/1';
    await recordInput(parent);
    await world.ledger.declareRollouts([declaredRollout({ rolloutId: parent })]);
    const spent = { tokens: 9, costUsd: 0, workedS: 3 };
    const { trajectory } = result;
    const taken = { step: 4, version: '', trajectory, spent };
    world.running.set(parent, { status: { step: 2, trajectory, checkpoints: [] }, taken });

    const { from } = await forkByCommand(parent, 3);

    expect(from).toMatchObject({ step: 3, trajectory: heads[2], spent: { tokens: 6 } });
  });
});
