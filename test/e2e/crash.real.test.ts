import type { RolloutResult } from '../../contracts/rollout';
import { sandboxIdOf } from '../../denv/ids';
import { CrashStack, rolloutIdOf, until } from './crash-stack';
import type { CrashBatch } from './crash-stack';
import {
  done,
  exec,
  gatedExec,
  gatedWork,
  httpController,
  slowController,
  untilGo,
  work,
} from './crash-tasks';
import { leftBehind } from './left-behind';

const stack = new CrashStack();

beforeAll(() => stack.up(), 120_000);
afterAll(async () => {
  try {
    await stack.close();
  } finally {
    stack.remove();
  }
}, 120_000);
jest.setTimeout(120_000);

/** HTTP requests that the endpoint of a batch has counted, beyond those that its results account for. */
function repeated({ model }: CrashBatch, results: Record<string, RolloutResult>): number {
  const accounted = Object.values(results)
    .map(({ modelCalls, modelCallsReissued }) => modelCalls + modelCallsReissued)
    .reduce((sum, calls) => sum + calls, 0);
  return model.stats().requests - accounted;
}

/** What everybody should see of a rollout that nothing has happened to. */
const unharmed = (rolloutId: string, effects: number, modelCalls: number) => ({
  outcome: 'scored',
  reward: 1,
  rewards: { effects },
  failure: null,
  stopReason: 'done',
  attempts: [{ attempt: 1 }],
  modelCalls,
  sandboxId: sandboxIdOf(`${rolloutId}/1/create`),
  lineage: { restored: [] },
});

const eventsOf = async (sandboxId: string) =>
  (await stack.record(sandboxId)).entries.map(({ event }) => event);

describe('kill -9 of the worker', () => {
  it('costs nothing at any stage: the same sandbox, each effect and each recorded reply once', async () => {
    const held = await stack.start('stages', [
      {
        id: 'setup',
        setup: [['sh', '-c', `echo s >> /workspace/effects; ${untilGo}`]],
        effects: 2,
        replies: [exec, done],
      },
      { id: 'exec', effects: 2, replies: [exec, gatedExec, done] },
      { id: 'http', environment: httpController, effects: 2, replies: [work, gatedWork, done] },
      { id: 'verify', effects: 1, gatedVerifier: true, replies: [exec, done] },
    ]);
    const id = (task: string) => rolloutIdOf('stages', task);
    await stack.effects(id('setup'), 1);
    await stack.effects(id('exec'), 2);
    await stack.effects(id('http'), 2);
    await stack.verifying(id('verify'));
    const asking = await stack.start(
      'asking',
      [{ id: 'model', effects: 1, replies: [exec, done] }],
      {
        fault: { kind: 'hang' },
      },
    );
    await until('the model is asked', 30, async () => asking.model.stats().open === 1);
    const making = await stack.start('making', [
      { id: 'create', environment: slowController, effects: 1, replies: [work, done] },
    ]);
    await stack.creating(rolloutIdOf('making', 'create'));

    await stack.killAndAwait('worker');
    asking.model.setFault(null);

    const results = await stack.finish(held);
    expect(results).toMatchObject({
      setup: unharmed(id('setup'), 2, 2),
      exec: unharmed(id('exec'), 2, 3),
      http: unharmed(id('http'), 2, 3),
      verify: unharmed(id('verify'), 1, 2),
    });
    expect(repeated(held, results)).toBe(0);
    expect(Object.values(results).map((r) => r.modelCallsReissued)).toEqual([0, 0, 0, 0]);
    const asked = await stack.finish(asking);
    expect(asked).toMatchObject({ model: unharmed(rolloutIdOf('asking', 'model'), 1, 2) });
    expect(asked['model']?.modelCallsReissued).toBe(1);
    expect(repeated(asking, asked)).toBe(0);
    const made = await stack.finish(making);
    expect(made).toMatchObject({ create: unharmed(rolloutIdOf('making', 'create'), 1, 2) });
    expect(repeated(making, made)).toBe(0);
    for (const { sandboxId, checkpoints } of Object.values({ ...results, ...asked, ...made })) {
      const events = (await eventsOf(sandboxId)).filter((event) => event !== 'restarted');
      const snapshots = checkpoints.map(() => 'snapshot');
      expect(events).toEqual([
        'created',
        ...snapshots,
        'stopped',
        'snapshot',
        'verified',
        'deleted',
      ]);
    }
  });
});

describe('at the end', () => {
  it('leaves no mount, loop device, cgroup or process of this home', async () => {
    await stack.down();

    expect(leftBehind(stack.home)).toEqual([]);
  });
});
