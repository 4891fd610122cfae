import { inputName } from '../../rollouts/inputs';
import { lostResult } from '../../rollouts/empty-result';
import { RolloutInput } from '../../contracts/rollout';
import type { RolloutResult } from '../../contracts/rollout';
import type { Task } from '../../contracts/task';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import { activitiesOnFakes, run } from './on-fakes';
import type { ActivitiesOnFakes } from './on-fakes';

const rootId = 'rollout/b/t/0';
const childId = `${rootId}/x1.1`;

const reply = (step: number): TrajectoryEntry => ({
  type: 'reply',
  step,
  reply: {
    text: '',
    toolCalls: [{ id: `c${step}`, name: 'write', arguments: {} }],
    finishReason: 'tool_calls',
    usage: { promptTokens: 10, completionTokens: 5, costUsd: 0.5 },
    durationS: 2,
    model: 'm',
  },
});

const observed = (step: number): TrajectoryEntry => ({
  type: 'observation',
  step,
  observation: { toolCallId: `c${step}`, name: 'write', isError: false, content: [], durationS: 1 },
});

/** A root that has made three steps and has a checkpoint before the second one. */
async function rooted(
  bench: ActivitiesOnFakes,
  task: Partial<Task> = {},
  more: Partial<RolloutInput> = {},
) {
  const root: RolloutInput = {
    rolloutId: rootId,
    batchId: 'b',
    taskId: 't',
    index: 0,
    taskRef: await bench.put(bench.packed(task)),
    identity: 'i',
    owner: 'o',
    agent: 'model',
    model: { name: 'm', settings: { seed: 5 }, price: null },
    limits: { maxSteps: 9 },
    checkpoints: 'step',
    onOutcomeUnknown: 'restore',
    ...more,
  };
  const opening: TrajectoryEntry[] = [{ type: 'prompt', text: 'Mend it.' }];
  let head = await bench.put({ prev: null, entries: opening });
  const heads = [head];
  for (const step of [1, 2, 3]) {
    head = await bench.put({ prev: head, entries: [reply(step), observed(step)] });
    heads.push(head);
  }
  const spent = { tokens: 15, costUsd: 0, workedS: 3 };
  const result: RolloutResult = {
    ...lostResult(root, 'x', new Date(0)),
    outcome: 'scored',
    reward: 0.5,
    failure: null,
    modelCalls: 3,
    usage: { promptTokens: 30, completionTokens: 15, costUsd: 1.5 },
    trajectory: head,
    checkpoints: [{ step: 2, version: 'ver_2', trajectory: heads[1] ?? '', spent }],
  };
  bench.results.set(rootId, result);
  return { root, heads, spent };
}

const fork = (step: number, more: object = {}) => ({
  rolloutId: childId,
  index: 1,
  seed: 100,
  parentRolloutId: rootId,
  step,
  ...more,
});

describe('declareContinuations', () => {
  test('starts from the checkpoint, with what was left of the budget and a seed of its own', async () => {
    const bench = activitiesOnFakes();
    const { root, heads, spent } = await rooted(bench);

    const [made] = await run(bench.activities.declareContinuations, { root, forks: [fork(2)] });

    expect(made).toMatchObject({
      rolloutId: childId,
      index: 1,
      limits: { maxSteps: 9 },
      model: { settings: { seed: 105 } },
      from: {
        parentRolloutId: rootId,
        step: 2,
        version: 'ver_2',
        trajectory: heads[1],
        way: 'snapshot',
        depth: 1,
        spent,
      },
    });
    expect(made?.identity).not.toBe(root.identity);
    const kept = bench.blobs.named.get(inputName(childId));
    expect(RolloutInput.parse(JSON.parse(String(kept)))).toEqual(made);
  });

  test('what was kept first stays, whatever has become of the parent', async () => {
    const bench = activitiesOnFakes();
    const { root } = await rooted(bench);
    const first = await run(bench.activities.declareContinuations, { root, forks: [fork(2)] });
    bench.results.delete(rootId);

    const again = await run(
      bench.otherWorker().declareContinuations,
      { root, forks: [fork(2)] },
      2,
    );

    expect(again).toEqual(first);
  });

  test('declares none when one of them has nothing to start from', async () => {
    const bench = activitiesOnFakes();
    const { root } = await rooted(bench);
    const forks = [fork(2), fork(3, { rolloutId: `${rootId}/x1.2` })];

    await expect(run(bench.activities.declareContinuations, { root, forks })).rejects.toMatchObject(
      {
        type: 'InvalidRequest',
        message: `${rootId} has no checkpoint before step 3 to fork`,
      },
    );
    expect(bench.blobs.named.size).toBe(0);
  });

  test('by replay: from every step, from the task itself, and with what was spent before it', async () => {
    const bench = activitiesOnFakes();
    const { root, heads } = await rooted(bench, { hud: { id: 'add' }, verifier: undefined });

    const [made] = await run(bench.activities.declareContinuations, { root, forks: [fork(3)] });

    expect(made?.from).toEqual({
      parentRolloutId: rootId,
      step: 3,
      version: '',
      trajectory: heads[2],
      replay: heads[2],
      way: 'replay',
      depth: 1,
      spent: { tokens: 30, costUsd: 1, workedS: 6 },
    });
  });

  test('by replay of a fork: from the version that its own calls began in', async () => {
    const bench = activitiesOnFakes();
    const { root, heads, spent } = await rooted(bench, { continuation: 'replay' });
    const from = {
      parentRolloutId: 'p',
      step: 2,
      version: 'ver_p',
      trajectory: heads[1] ?? '',
      spent,
    };
    bench.blobs.named.set(inputName(rootId), Buffer.from(JSON.stringify({ ...root, from })));
    bench.results.set('p', lostResult({ ...root, rolloutId: 'p' }, 'x', new Date(0)));

    const [made] = await run(bench.activities.declareContinuations, { root, forks: [fork(3)] });

    expect(made?.from).toMatchObject({ version: 'ver_p', replay: heads[2] });
  });

  test.each([
    [
      { continuation: 'snapshot' as const, hud: { id: 'add' }, verifier: undefined },
      'InvalidRequest',
    ],
  ])('refuses a way that there is not: %j', async (task, type) => {
    const bench = activitiesOnFakes();
    const { root } = await rooted(bench, task);

    await expect(
      run(bench.activities.declareContinuations, { root, forks: [fork(2)] }),
    ).rejects.toMatchObject({ type, nonRetryable: true });
  });
});

describe('readNodes', () => {
  test('tells what has become of those that have a result, in few bytes', async () => {
    const bench = activitiesOnFakes();
    const { root } = await rooted(bench);

    const nodes = await run(bench.activities.readNodes, {
      taskRef: root.taskRef,
      rolloutIds: [rootId, childId],
    });

    expect(nodes).toEqual([
      {
        rolloutId: rootId,
        state: 'scored',
        reward: 0.5,
        checkpoints: [2],
        modelCalls: 3,
        tokens: 45,
        costUsd: 1.5,
      },
    ]);
  });
});
