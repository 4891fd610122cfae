import { batchWorkflowId, handle } from '../../../client/api/rollouts';
import { rolloutIdOf } from '../crash-stack';
import { done, exec, gatedExec, gatedWork, httpController, work } from '../crash-tasks';
import { useCrashStack } from '../use-crash-stack';
import { repeated, unharmed } from './expected';

const stack = useCrashStack();

describe('kill -9 of Temporal', () => {
  it('in the middle of a batch costs nothing of it', async () => {
    const tasks = [1, 2, 3, 4].map((n) => ({
      id: `task-${n}`,
      effects: 2,
      replies: [exec, gatedExec, done],
    }));
    const batch = await stack.start('temporal', tasks, { concurrency: 2 });
    const ids = tasks.map(({ id }) => rolloutIdOf('temporal', id));
    for (const id of ids.slice(0, 2)) await stack.effects(id, 2);

    const back = stack.killAndAwait('temporal');
    await stack.openGates(ids); // Calls end while nobody can be told.
    await back;

    const results = await stack.finish(batch);
    expect(Object.values(results)).toMatchObject(ids.map((id) => unharmed(id, 2, 3)));
    expect(repeated(batch, results)).toBe(0);
    expect(batch.model.stats().requests).toBe(12);
  });
});

describe('kill -9 of the supervisor', () => {
  it('alone: up takes over, and what ran goes on', async () => {
    const batch = await stack.start('supervisor', [
      { id: 'exec', effects: 2, replies: [exec, gatedExec, done] },
      { id: 'http', environment: httpController, effects: 2, replies: [work, gatedWork, done] },
    ]);
    const id = (task: string) => rolloutIdOf('supervisor', task);
    await stack.effects(id('exec'), 2);
    await stack.effects(id('http'), 2);

    await stack.killSupervisor();
    await stack.up();

    const results = await stack.finish(batch);
    expect(results).toMatchObject({
      exec: unharmed(id('exec'), 2, 3),
      http: {
        ...unharmed(id('http'), 2, 3),
        sandboxId: expect.any(String),
        lineage: { restored: [{ step: 2 }] },
      },
    });
    expect(repeated(batch, results)).toBe(0);
  });

  it('and of everything: a reward is readable at once, and the rest goes on at the next up', async () => {
    const tasks = [
      { id: 'ended', effects: 1, replies: [exec, done] },
      { id: 'held', effects: 2, replies: [exec, gatedExec, done] },
      { id: 'waiting', effects: 1, replies: [exec, done] },
    ];
    const batch = await stack.start('everything', tasks, { concurrency: 1 });
    const [ended = '', held = '', waiting = ''] = tasks.map(({ id }) =>
      rolloutIdOf('everything', id),
    );
    await stack.effects(held, 2);

    await stack.killEverything();

    const listed = await stack.command('list', '--batch', 'everything', '--json');
    expect(JSON.parse(listed.stdout)).toMatchObject([
      { rolloutId: ended, outcome: 'scored', reward: 1 },
      { rolloutId: held, reward: null },
      { rolloutId: waiting, reward: null },
    ]);
    await stack.up();
    const results = await stack.finish(batch);
    expect(results).toMatchObject({
      ended: unharmed(ended, 1, 2),
      held: unharmed(held, 2, 3),
      waiting: unharmed(waiting, 1, 2),
    });
    expect(repeated(batch, results)).toBe(0);
  });
});

describe('a batch whose workflow is terminated', () => {
  it('leaves its rollouts running, and the same batch again runs what is left, nothing twice', async () => {
    const tasks = [1, 2, 3, 4].map((n) => ({
      id: `task-${n}`,
      effects: 1,
      replies: [gatedExec, done],
    }));
    const batch = await stack.start('terminated', tasks, { concurrency: 2 });
    const ids = tasks.map(({ id }) => rolloutIdOf('terminated', id));
    for (const id of ids.slice(0, 2)) await stack.effects(id, 1);

    await handle(stack.rollouts, batchWorkflowId('terminated')).terminate();
    expect(await stack.declare(batch, { concurrency: 2 })).toEqual({ knownBefore: true });

    const results = await stack.finish(batch);
    expect(Object.values(results)).toMatchObject(ids.map((id) => unharmed(id, 1, 2)));
    expect(repeated(batch, results)).toBe(0);
    expect(batch.model.stats().requests).toBe(8);
  });
});
