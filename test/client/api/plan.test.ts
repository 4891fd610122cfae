import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { RolloutInput } from '../../../contracts/rollout';
import { chooseTasks, planBatch } from '../../../client/api/plan';
import type { RunRequest } from '../../../client/api/plan';
import { createDirectoryBlobs } from '../../../stores/directory-blobs';
import { loadTaskset } from '../../../tasks/rows';
import type { LoadedTaskset } from '../../../tasks/loaded-taskset';

describe('planning a batch', () => {
  let dir: string;
  let taskset: LoadedTaskset;
  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'plan-'));
    const file = resolve(__dirname, '../../fixtures/tiny/taskset.yaml');
    taskset = await loadTaskset(file, { imagesAreHere: true });
  });
  afterAll(() => rm(dir, { recursive: true, force: true }));

  const request: RunRequest = {
    batchId: 'b1',
    agent: 'model',
    model: 'openai/m',
    settings: {},
    group: 2,
    taskIds: [],
  };
  const plan = (over: Partial<RunRequest> = {}) =>
    planBatch(
      taskset,
      { ...request, ...over },
      {
        blobs: createDirectoryBlobs(join(dir, 'blobs')),
        owner: 'own_1',
        searchAttributes: true,
        priceFile: join(dir, 'prices.json'),
      },
    );

  it('declares a group of each task, in order, with ids made from meaning', async () => {
    const { rollouts, ...rest } = await plan();

    expect(rest).toEqual({ batchId: 'b1', taskset: 'tiny' });
    expect(rollouts.map(({ rolloutId }) => rolloutId)).toEqual([
      'rollout/b1/answer/0',
      'rollout/b1/answer/1',
      'rollout/b1/no-answer/0',
      'rollout/b1/no-answer/1',
    ]);
    for (const rollout of rollouts) expect(RolloutInput.parse(rollout)).toEqual(rollout);
    expect(new Set(rollouts.map(({ identity }) => identity)).size).toBe(4);
  });

  it('plans the same again, and keeps identities when the address changes', async () => {
    const first = await plan();
    const moved = await plan({ baseUrl: 'http://127.0.0.1:1/v1' });

    expect(await plan()).toEqual(first);
    expect(moved.rollouts.map((r) => r.identity)).toEqual(first.rollouts.map((r) => r.identity));
    expect(moved.rollouts[0]?.model.baseUrl).toBe('http://127.0.0.1:1/v1');
  });

  it('lays what was asked for over the limits and settings of the tasks', async () => {
    const { rollouts } = await plan({
      maxSteps: 3,
      settings: { temperature: 0.5 },
      taskIds: ['answer'],
    });

    expect(rollouts).toHaveLength(2);
    expect(rollouts[0]?.limits).toEqual({ maxSteps: 3, agentTimeoutS: 60, toolTimeoutS: 20 });
    expect(rollouts[0]?.model.settings).toEqual({ temperature: 0.5 });
    expect(rollouts[0]?.identity).not.toBe((await plan()).rollouts[0]?.identity);
  });

  it('needs no model for an agent that asks none', async () => {
    const { rollouts } = await plan({ agent: 'oracle', model: undefined });

    expect(rollouts[0]?.model).toEqual({ name: '', settings: {}, price: null });
  });

  it.each(['openai/a/b', 'anthropic/m', 'google/m', 'scripted', 'scripted/m'])(
    'takes %s for a model',
    async (model) => {
      expect((await plan({ model })).rollouts[0]?.model.name).toBe(model);
    },
  );

  it('refuses the oracle where no command can be run', async () => {
    const environment = { target: 'tcp', address: 'h:1', controller: { kind: 'hud' as const } };
    const task = { id: 't', hud: { id: 'add' }, solution: [['x']], environment };
    const hud = { name: 'hud', folder: dir, tasks: [task] };

    await expect(
      chooseTasks(hud, { ...request, agent: 'oracle' }, join(dir, 'prices.json')),
    ).rejects.toThrow('task "t" is attached to by an address, where none can be run');
  });

  it('takes no checkpoints of a HUD task, and reports what is unknown to its agent', async () => {
    const task = { id: 't', hud: { id: 'add' }, environment: { version: 'ver_1' } };
    const hud = { name: 'hud', folder: dir, tasks: [task] };
    const places = {
      blobs: createDirectoryBlobs(join(dir, 'blobs')),
      owner: 'own_1',
      searchAttributes: true,
      priceFile: join(dir, 'prices.json'),
    };

    const { rollouts } = await planBatch(hud, { ...request, group: 1 }, places);

    expect(rollouts[0]).toMatchObject({ checkpoints: 'never', onOutcomeUnknown: 'report' });
  });

  it('takes checkpoints and keeps versions as the command says, then as the task does, else before each step', async () => {
    const ofTask = {
      ...taskset,
      tasks: taskset.tasks.map((task) => ({ ...task, checkpoints: 5, keep: 'best' as const })),
    };
    const places = {
      blobs: createDirectoryBlobs(join(dir, 'blobs')),
      owner: 'own_1',
      searchAttributes: true,
      priceFile: join(dir, 'prices.json'),
    };
    const policies = async (set: LoadedTaskset, over: Partial<RunRequest>) => {
      const { rollouts } = await planBatch(set, { ...request, ...over, group: 1 }, places);
      return rollouts[0] && [rollouts[0].checkpoints, rollouts[0].keep];
    };

    expect(await policies(taskset, {})).toEqual(['step', undefined]);
    expect(await policies(ofTask, {})).toEqual([5, 'best']);
    expect(await policies(ofTask, { checkpoints: 'mutating', keep: 'all' })).toEqual([
      'mutating',
      'all',
    ]);
  });

  it('refuses checkpoints of a HUD task that none of them could be gone on from', async () => {
    const environment = { version: 'ver_1' };
    const hud = { name: 'hud', folder: dir, tasks: [{ id: 't', hud: { id: 'add' }, environment }] };

    await expect(
      chooseTasks(hud, { ...request, checkpoints: 'step' }, join(dir, 'p')),
    ).rejects.toThrow(
      '--checkpoints step: task "t" cannot go on from one: `snapshot`: a HUD task lives in its environment’s memory',
    );
  });

  const costly = (): LoadedTaskset => ({
    ...taskset,
    tasks: taskset.tasks.map((task) => ({ ...task, limits: { maxCostUsd: 1 } })),
  });

  it('refuses a cost limit on a model without a price, and takes it once there is one', async () => {
    const priceFile = join(dir, 'some-prices.json');
    await expect(chooseTasks(costly(), request, priceFile)).rejects.toThrow(
      `needs the price of openai/m, which ${priceFile} does not have`,
    );

    const price = { promptUsdPerMTok: 1, completionUsdPerMTok: 2 };
    await writeFile(priceFile, JSON.stringify({ 'openai/m': price }));

    const [first] = await chooseTasks(costly(), request, priceFile);
    expect(first?.model.price).toEqual(price);
  });

  it.each<[Partial<RunRequest>, string]>([
    [{ model: undefined }, 'which model? Give --model openai/<name>'],
    [
      { model: 'm' },
      '--model m: say where it is served, as in openai/m (any OpenAI-compatible endpoint), anthropic/m, google/m or scripted',
    ],
    [{ model: 'anthropic/' }, '--model anthropic/: say where it is served'],
    [
      { taskIds: ['answer', 'x'] },
      '--task x: taskset tiny has no such task; it has answer, no-answer',
    ],
    [{ batchId: 'a/b' }, '--batch a/b: give letters, digits, ".", "_" and "-", at most 100'],
    [{ group: 501 }, '2 tasks × group 501 are 1002 rollouts; a batch has at most 1000'],
  ])('refuses %j', async (over, message) => {
    await expect(plan(over)).rejects.toThrow(message);
  });

  it('refuses the oracle for a task without a solution', async () => {
    const unsolved = {
      ...taskset,
      tasks: taskset.tasks.map((task) => ({ ...task, solution: undefined })),
    };

    await expect(
      chooseTasks(unsolved, { ...request, agent: 'oracle' }, join(dir, 'prices.json')),
    ).rejects.toThrow('task "answer" has no `solution`');
  });
});
