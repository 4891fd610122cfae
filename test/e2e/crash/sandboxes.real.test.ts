import type { RolloutResult } from '../../../contracts/rollout';
import { forkChildKey, sandboxIdOf } from '../../../denv/ids';
import { rolloutIdOf } from '../crash-stack';
import type { CrashBatch } from '../crash-stack';
import { done, exec, gatedExec, httpController, lastWork, work } from '../crash-tasks';
import { until } from '../until';
import { useCrashStack } from '../use-crash-stack';
import { repeated, unharmed } from './expected';

const stack = useCrashStack();

describe('a sandbox', () => {
  it('that its agent ends is judged as it was left: no second attempt, no further model call', async () => {
    const batch = await stack.start('ended', [
      {
        id: 'task',
        environment: httpController,
        effects: 2,
        replies: [work, lastWork, work, done],
      },
    ]);
    const id = rolloutIdOf('ended', 'task');

    const results = await stack.finish(batch);

    expect(results).toMatchObject({
      task: {
        ...unharmed(id, 2, 2),
        stopReason: 'sandbox_lost',
        failure: { class: 'agent', type: 'SandboxStopped' },
      },
    });
    expect(batch.model.stats().requests).toBe(2);
  });
});

describe('sandboxes that the host ends', () => {
  /** The sandbox that a rollout is restored to, the first time. */
  const restoredTo = (id: string): string => sandboxIdOf(forkChildKey(`${id}/1/restore`, 0));
  const once = rolloutIdOf('once', 'task');
  const twice = rolloutIdOf('twice', 'task');
  const thinking = rolloutIdOf('thinking', 'task');
  const batches: Record<string, CrashBatch> = {};
  const results: Record<string, RolloutResult | undefined> = {};

  // One stack goes down twice for all three of them.
  beforeAll(async () => {
    const gated = [{ id: 'task', effects: 2, replies: [exec, gatedExec, done] }];
    batches['once'] = await stack.start('once', gated);
    batches['twice'] = await stack.start('twice', gated);
    const model = await stack.start('thinking', [
      { id: 'task', effects: 2, replies: [gatedExec, exec, done] },
    ]);
    batches['thinking'] = model;
    await stack.effects(once, 2);
    await stack.effects(twice, 2);
    await stack.effects(thinking, 1);
    model.model.setFault({ kind: 'hang' });
    await stack.openGates([thinking]);
    await until('the model thinks', async () => {
      const { answered, open } = model.model.stats();
      return answered === 1 && open === 1;
    });

    await stack.down();
    model.model.setFault(null);
    await stack.up();
    for (const name of ['once', 'thinking']) {
      results[name] = (await stack.finish(batches[name] as CrashBatch))['task'];
    }
    await stack.effects(twice, 2, restoredTo(twice));
    await stack.down();
    await stack.up();
    results['twice'] = (await stack.finish(batches['twice'] as CrashBatch))['task'];
  });

  const repeatedIn = (name: string): number => {
    const batch = batches[name];
    const task = results[name];
    if (!batch || !task) throw new Error(`${name} has not ended`);
    return repeated(batch, { task });
  };

  it('are restored once, from before the step', () => {
    expect(results['once']).toMatchObject({
      ...unharmed(once, 2, 3),
      sandboxId: restoredTo(once),
      lineage: { restored: [{ step: 2, sandboxId: restoredTo(once) }] },
    });
    expect(repeatedIn('once')).toBe(0);
  });

  it('are restored from the last checkpoint when the model was thinking', () => {
    expect(results['thinking']).toMatchObject({
      outcome: 'scored',
      reward: 1,
      rewards: { effects: 2 },
      attempts: [{ attempt: 1 }],
      sandboxId: restoredTo(thinking),
      lineage: { restored: [{ step: 1, sandboxId: restoredTo(thinking) }] },
    });
    expect(repeatedIn('thinking')).toBe(0);
  });

  it('are not restored when the host ends them a second time: the rollout has a new attempt', () => {
    expect(results['twice']).toMatchObject({
      outcome: 'scored',
      reward: 1,
      attempts: [
        { attempt: 1, failure: { class: 'infra', type: 'SandboxStopped' } },
        { attempt: 2, failure: null },
      ],
      sandboxId: sandboxIdOf(`${twice}/2/create`),
      lineage: { restored: [{ step: 2, sandboxId: restoredTo(twice) }] },
    });
  });
});
