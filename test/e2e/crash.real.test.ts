import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { awaitExploration, startExploration } from '../../client/api/explore';
import {
  batchWorkflowId,
  cancelExploration,
  handle,
  readRolloutStatus,
} from '../../client/api/rollouts';
import { readEntries } from '../../rollouts/trajectory/chain';
import { batchReport } from '../../client/api/watch';
import type { RolloutResult } from '../../contracts/rollout';
import { forkChildKey, sandboxIdOf, versionIdOf } from '../../denv/ids';
import type { ScriptedFault } from '../../models/scripted/server';
import { CrashStack, rolloutIdOf } from './crash-stack';
import type { CrashBatch } from './crash-stack';
import {
  call,
  done,
  exec,
  gatedExec,
  gatedWork,
  httpController,
  lastWork,
  slowController,
  untilGo,
  verifierOf,
  work,
} from './crash-tasks';
import { leftBehind } from './left-behind';
import { settled, until } from './until';

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
// Each case moves half a dozen processes through a kill: one that a slow machine upsets is shown, and made once more.
jest.retryTimes(1, { logErrorsBeforeRetry: true });

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

/** What the agent was shown, an observation a line. */
async function told(result: RolloutResult | undefined): Promise<string> {
  const entries = await readEntries(stack.rollouts.documents, result?.trajectory ?? '');
  return entries
    .flatMap((entry) => (entry.type === 'observation' ? entry.observation.content : []))
    .map((part) => (part.type === 'text' ? part.text : part.type))
    .join('\n');
}

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

  it('leaves one result when it comes while that is being recorded', async () => {
    const batch = await stack.start('recording', [
      { id: 'task', effects: 1, gatedVerifier: true, replies: [exec, done] },
    ]);
    const id = rolloutIdOf('recording', 'task');
    await stack.verifying(id);
    const ledger = new DatabaseSync(join(stack.home, 'ledger.db'));
    ledger.exec('BEGIN IMMEDIATE'); // Whoever records waits for this writer.
    stack.openVerifiers();
    await until('the result is being recorded', 30, async () => {
      const { raw } = await handle(stack.rollouts, id).describe();
      return (raw.pendingActivities ?? []).some(
        ({ activityType, attempt }) => activityType?.name === 'recordResult' && attempt === 1,
      );
    });

    const back = stack.killAndAwait('worker');
    ledger.exec('ROLLBACK');
    ledger.close();
    await back;

    const results = await stack.finish(batch);
    expect(results).toMatchObject({ task: unharmed(id, 1, 2) });
    expect(repeated(batch, results)).toBe(0);
    expect(await handle(stack.rollouts, id).result()).toEqual(results['task']);
    const events = await eventsOf(results['task']?.sandboxId ?? '');
    expect(events.filter((event) => event === 'verified')).toHaveLength(1);
  });

  it('takes back no reward that was recorded, and runs nothing of it again', async () => {
    const tasks = [{ id: 'task', effects: 1, gatedVerifier: true, replies: [exec, done] }];
    const batch = await stack.start('recorded', tasks);
    const id = rolloutIdOf('recorded', 'task');
    await stack.verifying(id);
    stack.openVerifiers();
    await until('the result', 30, async () => {
      return (await stack.rollouts.ledger.rollout(id))?.result !== null;
    });

    const back = stack.killAndAwait('worker');
    const listed = await stack.command('list', '--batch', 'recorded', '--json');
    await back;

    expect(JSON.parse(listed.stdout)).toMatchObject([{ rolloutId: id, reward: 1 }]);
    const before = await stack.finish(batch);
    expect(before).toMatchObject({ task: unharmed(id, 1, 2) });
    // Another address of the model makes it no other batch.
    const again = await stack.start('recorded', tasks);
    expect(await stack.finish(again)).toEqual(before);
    expect(again.model.stats().requests).toBe(0);
    expect(batch.model.stats().requests).toBe(2);
    await until('its workflow has ended', 30, async () => {
      return (await handle(stack.rollouts, id).describe()).status.name === 'COMPLETED';
    });
    expect(await eventsOf(before['task']?.sandboxId ?? '')).toEqual(
      expect.arrayContaining(['created', 'verified', 'deleted']),
    );
  });

  it('charges working time once, and none of the time that nobody worked', async () => {
    const batch = await stack.start('budget', [
      {
        id: 'time',
        limits: { agentTimeoutS: 4 },
        effects: 2,
        replies: [
          call('bash', { command: 'echo x >> /workspace/effects; sleep 2' }),
          call('bash', { command: 'echo x >> /workspace/effects; sleep 60' }),
          done,
        ],
      },
    ]);
    const id = rolloutIdOf('budget', 'time');
    await stack.effects(id, 1);

    await stack.killAndAwait('worker');

    const results = await stack.finish(batch);
    expect(results).toMatchObject({
      time: {
        ...unharmed(id, 2, 2),
        stopReason: 'agent_timeout',
        failure: { class: 'agent', type: 'AgentTimeout' },
        toolCalls: 2,
      },
    });
    expect(results['time']?.workedS).toBeGreaterThanOrEqual(4);
    expect(results['time']?.workedS).toBeLessThan(4.5);
    expect(repeated(batch, results)).toBe(0);
  });

  it('has the next worker remove what a terminated rollout left, and nothing else', async () => {
    const tasks = ['ended', 'goes-on'].map((id) => ({
      id,
      effects: 1,
      replies: [gatedExec, done],
    }));
    const batch = await stack.start('reaped', tasks, { input: { leaseS: 5 } });
    const [ended = '', goesOn = ''] = tasks.map(({ id }) => rolloutIdOf('reaped', id));
    await stack.effects(ended, 1);
    await stack.effects(goesOn, 1);
    await handle(stack.rollouts, ended).terminate();
    await until('the lease is over', 30, async () => {
      const [sandbox] = await stack.sandboxes([ended]);
      return sandbox !== undefined && Date.parse(sandbox.leaseUntil) < Date.now();
    });

    await stack.killAndAwait('worker');

    await until('it is removed', 30, async () => (await stack.sandboxes([ended])).length === 0);
    expect(await stack.sandboxes([goesOn])).toMatchObject([{ state: 'running' }]);
    expect(await stack.finish(batch)).toMatchObject({
      ended: { outcome: 'unscored', reward: null, failure: { class: 'infra' } },
      'goes-on': unharmed(goesOn, 1, 2),
    });
  });
});

describe('kill -9 of the denv server', () => {
  it('redoes what nobody saw, finishes what it can, and guesses nothing', async () => {
    const calls = { environment: httpController, effects: 3 };
    const held = await stack.start('denv', [
      {
        id: 'setup',
        setup: [['sh', '-c', `echo s >> /workspace/effects; ${untilGo}`]],
        effects: 2,
        replies: [exec, done],
      },
      { id: 'verify', effects: 1, gatedVerifier: true, replies: [exec, done] },
      { ...calls, id: 'restore', replies: [work, gatedWork, work, done] },
      {
        ...calls,
        id: 'report',
        onOutcomeUnknown: 'report',
        replies: [work, gatedWork, work, done],
      },
      {
        ...calls,
        id: 'fail',
        onOutcomeUnknown: 'fail',
        limits: { maxSteps: 5 },
        replies: [work, gatedWork, work, work, work, work, done],
      },
    ]);
    const id = (task: string) => rolloutIdOf('denv', task);
    await stack.effects(id('setup'), 1);
    await stack.verifying(id('verify'));
    for (const task of ['restore', 'report', 'fail']) await stack.effects(id(task), 2);
    const making = await stack.start('denv-making', [
      { id: 'create', environment: slowController, effects: 1, replies: [work, done] },
    ]);
    await stack.creating(rolloutIdOf('denv-making', 'create'));

    await stack.killAndAwait('denv');

    const results = await stack.finish(held);
    const restored = { step: 2, version: versionIdOf(`${id('restore')}/1/step/2/call/0`) };
    const other = sandboxIdOf(forkChildKey(`${id('restore')}/1/restore`, 0));
    expect(results).toMatchObject({
      setup: unharmed(id('setup'), 2, 2),
      verify: unharmed(id('verify'), 1, 2),
      restore: {
        ...unharmed(id('restore'), 3, 4),
        sandboxId: other,
        lineage: { restored: [{ ...restored, sandboxId: other }] },
      },
      report: unharmed(id('report'), 3, 4),
      // The budget of both attempts is one: two steps of the first, and the three that are left.
      fail: {
        ...unharmed(id('fail'), 3, 5),
        stopReason: 'max_steps',
        steps: 5,
        attempts: [
          { attempt: 1, failure: { class: 'infra', type: 'OutcomeUnknown' } },
          { attempt: 2, failure: null },
        ],
        sandboxId: sandboxIdOf(`${id('fail')}/2/create`),
      },
    });
    expect(repeated(held, results)).toBe(0);
    expect(Object.values(results).map((r) => r.modelCallsReissued)).toEqual([0, 0, 0, 0, 0]);
    expect(await told(results['report'])).toMatch(/^worked.*\n.*outcome .* unknown.*\nworked/);
    expect(await told(results['restore'])).toMatch(/^worked.*\nworked.*\nworked/);
    const verified = await eventsOf(results['verify']?.sandboxId ?? '');
    expect(verified.filter((event) => event === 'verified')).toHaveLength(1);
    const made = await stack.finish(making);
    expect(made).toMatchObject({ create: unharmed(rolloutIdOf('denv-making', 'create'), 1, 2) });
    const created = await eventsOf(made['create']?.sandboxId ?? '');
    expect(created.filter((event) => event === 'created')).toHaveLength(1);
    const { scored, meanReward } = await batchReport(stack.rollouts, 'denv');
    expect({ scored, meanReward }).toEqual({ scored: 5, meanReward: 1 });
  });
});

/** Starts `count` continuations from before a step, and waits until they have their ids. */
async function goOnFrom(rolloutId: string, step: number, count: number, stopAtReward?: number) {
  const { ledger } = stack.rollouts;
  const continuations = async () =>
    (await ledger.rollouts({ parentRolloutId: rolloutId })).map((row) => row.rolloutId);
  const before = new Set(await continuations());
  const { exploreId } = await startExploration(stack.rollouts, {
    rolloutId,
    strategy: { name: 'flat', count, depth: 1, branch: 1, every: 1, at: step },
    limits: {
      concurrency: count,
      maxContinuations: count,
      maxDepth: 1,
      ...(stopAtReward === undefined ? {} : { stopAtReward }),
    },
    changes: {},
    priceFile: join(stack.home, 'prices.json'),
  });
  let rolloutIds: string[] = [];
  await until(`${count} continuations of ${rolloutId}`, 30, async () => {
    rolloutIds = (await continuations()).filter((id) => !before.has(id));
    return rolloutIds.length === count;
  });
  return { exploreId, rolloutIds };
}

describe('an exploration', () => {
  it('ends each continuation once when servers are killed in the forks and in the calls', async () => {
    const batch = await stack.start('parent', [
      {
        id: 'task',
        environment: slowController,
        effects: 3,
        replies: [work, gatedWork, work, done],
      },
    ]);
    const parent = rolloutIdOf('parent', 'task');
    await stack.effects(parent, 2);
    expect(await stack.finish(batch)).toMatchObject({ task: unharmed(parent, 3, 4) });
    const { exploreId, rolloutIds } = await goOnFrom(parent, 2, 3);
    for (const id of rolloutIds) await stack.creating(id);

    await stack.killAndAwait('denv');
    const forkOf = (id: string) => sandboxIdOf(forkChildKey(`${id}/1/create`, 0));
    // What the parent wrote before the fork is there, beside the continuation's own.
    for (const id of rolloutIds) await stack.effects(id, 2, forkOf(id));
    await stack.killAndAwait('worker');

    const results = await stack.finishRollouts(rolloutIds);
    for (const [n, id] of rolloutIds.entries()) {
      expect(results[n]).toMatchObject({
        ...unharmed(id, 3, 3),
        sandboxId: forkOf(id),
        lineage: { parentRolloutId: parent, step: 2, restored: [] },
      });
    }
    const requests = 4 + results.reduce((sum, r) => sum + r.modelCalls + r.modelCallsReissued, 0);
    expect(batch.model.stats().requests).toBe(requests);
    expect(await awaitExploration(stack.rollouts, exploreId)).toMatchObject({
      scored: 3,
      value: 1,
      ended: 'done',
    });
  });

  it('stops its continuations when it is cancelled and the worker is killed over that', async () => {
    const parent = rolloutIdOf('cancelled', 'task');
    const batch = await stack.start('cancelled', [
      { id: 'task', effects: 2, replies: [exec, gatedExec, done] },
    ]);
    await stack.effects(parent, 2);
    await stack.finish(batch);
    const { exploreId, rolloutIds } = await goOnFrom(parent, 2, 2);
    for (const id of rolloutIds) {
      await stack.effects(id, 2, sandboxIdOf(forkChildKey(`${id}/1/create`, 0)));
    }

    await cancelExploration(stack.rollouts, exploreId);
    await stack.killAndAwait('worker');

    await until('all have ended', 60, async () => {
      return (await stack.rollouts.ledger.results(rolloutIds)).length === 2;
    });
    await until('no sandbox', 30, async () => (await stack.sandboxes(rolloutIds)).length === 0);
    expect(await stack.rollouts.ledger.results(rolloutIds)).toMatchObject(
      rolloutIds.map(() => ({ reward: null, failure: { class: 'cancelled' } })),
    );
  });
});

describe('an exploration that stops at a reward', () => {
  let serial = 0;

  it('stops those that still run, also when the worker is killed, and leaves no sandbox', async () => {
    serial += 1;
    const batchId = `losers-${serial}`;
    const parent = rolloutIdOf(batchId, 'task');
    const batch = await stack.start(batchId, [
      { id: 'task', effects: 2, replies: [exec, gatedExec, done] },
    ]);
    await stack.effects(parent, 2);
    await stack.finish(batch);
    const { exploreId, rolloutIds } = await goOnFrom(parent, 2, 3, 1);
    const sandboxOf = (id: string) => sandboxIdOf(forkChildKey(`${id}/1/create`, 0));
    for (const id of rolloutIds) await stack.effects(id, 2, sandboxOf(id));
    const winner = rolloutIds[1] ?? '';
    const open = { argv: ['touch', '/workspace/go'], timeoutS: 10 };

    const back = stack.killAndAwait('worker');
    await stack.rollouts.denv.exec(sandboxOf(winner), open, { key: `gate/${winner}` });
    await back;

    const explored = await awaitExploration(stack.rollouts, exploreId);
    expect(explored).toMatchObject({
      ended: 'stop_reward',
      scored: 1,
      best: { rolloutId: winner, reward: 1 },
    });
    expect(await stack.rollouts.ledger.results(rolloutIds)).toMatchObject(
      rolloutIds.map((id) =>
        id === winner
          ? { outcome: 'scored', reward: 1 }
          : { outcome: 'unscored', reward: null, failure: { class: 'cancelled' } },
      ),
    );
    await until('no sandbox', 30, async () => (await stack.sandboxes(rolloutIds)).length === 0);
  });
});

/** Effects in a version, as a fork of it would find them. */
async function effectsIn(version: string): Promise<number> {
  const file = await stack.rollouts.denv.readVersionFile(version, '/workspace/effects');
  return file.toString().split('\n').filter(Boolean).length;
}

describe('a checkpoint', () => {
  it('that was complete before its worker was killed, and in no history yet, enters it once', async () => {
    const batch = await stack.start('snapshot', [
      { id: 'task', effects: 2, replies: [exec, gatedExec, done] },
    ]);
    const id = rolloutIdOf('snapshot', 'task');
    await stack.effects(id, 2);
    const version = versionIdOf(`${id}/1/step/2/call/0`);
    expect(await stack.rollouts.denv.getVersion(version)).toMatchObject({ id: version });
    expect((await readRolloutStatus(stack.rollouts, id))?.checkpoints).toMatchObject([{ step: 1 }]);

    await stack.killAndAwait('worker');

    const { task } = await stack.finish(batch);
    expect(task).toMatchObject(unharmed(id, 2, 3));
    expect(task?.checkpoints.map((one) => [one.step, one.version])).toEqual([
      [1, versionIdOf(`${id}/1/step/1/call/0`)],
      [2, version],
    ]);
    expect(await effectsIn(version)).toBe(1);
  });

  it('that was half made when the denv server was killed is made anew, or the one before it is gone back to', async () => {
    const large = 'head -c 500000000 /dev/urandom > /workspace/large';
    const batch = await stack.start('half', [
      {
        id: 'task',
        effects: 3,
        replies: [
          exec,
          call('bash', { command: `echo x >> /workspace/effects; ${large}` }),
          exec,
          done,
        ],
      },
    ]);
    const id = rolloutIdOf('half', 'task');
    const key = `${id}/1/step/3/call/0`;
    const { denv } = stack.rollouts;
    // What was written last takes its time to get to the disk, and there is no version before it has.
    await until('the version is being made', 60, async () => {
      if ((await denv.operation(key)).state !== 'running') return false;
      return (await settled(denv.getVersion(versionIdOf(key)))) === null;
    });

    await stack.killAndAwait('denv');

    const { task } = await stack.finish(batch);
    expect(task).toMatchObject({ outcome: 'scored', reward: 1, rewards: { effects: 3 } });
    for (const { step, version } of task?.checkpoints ?? []) {
      if (step > 1) expect([step, await effectsIn(version)]).toEqual([step, step - 1]);
    }
    expect(task?.checkpoints.map(({ step }) => step)).toEqual([1, 2, 3]);
  });
});

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

describe('a sandbox', () => {
  let thoughts = 0;

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

  it('that the host ends is gone on from, once, from before the step', async () => {
    const batch = await stack.start('host', [
      { id: 'task', effects: 2, replies: [exec, gatedExec, done] },
    ]);
    const id = rolloutIdOf('host', 'task');
    await stack.effects(id, 2);

    await stack.down();
    await stack.up();

    const results = await stack.finish(batch);
    const other = sandboxIdOf(forkChildKey(`${id}/1/restore`, 0));
    expect(results).toMatchObject({
      task: {
        ...unharmed(id, 2, 3),
        sandboxId: other,
        lineage: { restored: [{ step: 2, sandboxId: other }] },
      },
    });
    expect(repeated(batch, results)).toBe(0);
  });

  it('that the host ends a second time is not restored again: a new attempt', async () => {
    const batch = await stack.start('host-twice', [
      { id: 'task', effects: 2, replies: [exec, gatedExec, done] },
    ]);
    const id = rolloutIdOf('host-twice', 'task');
    const other = sandboxIdOf(forkChildKey(`${id}/1/restore`, 0));
    await stack.effects(id, 2);
    await stack.down();
    await stack.up();
    await stack.effects(id, 2, other);

    await stack.down();
    await stack.up();

    expect(await stack.finish(batch)).toMatchObject({
      task: {
        outcome: 'scored',
        reward: 1,
        attempts: [
          { attempt: 1, failure: { class: 'infra', type: 'SandboxStopped' } },
          { attempt: 2, failure: null },
        ],
        sandboxId: sandboxIdOf(`${id}/2/create`),
        lineage: { restored: [{ step: 2, sandboxId: other }] },
      },
    });
  });

  it('that the host ends while the model thinks is gone on from at its last checkpoint', async () => {
    thoughts += 1;
    const batchId = `host-model-${thoughts}`;
    // Longer than a worker that goes waits for what it has begun.
    const thinking = { ...exec, delayMs: 14_000 };
    const batch = await stack.start(batchId, [
      { id: 'task', effects: 2, replies: [exec, thinking, done] },
    ]);
    const id = rolloutIdOf(batchId, 'task');
    await until('the model thinks', 30, async () => {
      const { answered, open } = batch.model.stats();
      return answered === 1 && open === 1;
    });

    await stack.down();
    await stack.up();

    const results = await stack.finish(batch);
    const other = sandboxIdOf(forkChildKey(`${id}/1/restore`, 0));
    expect(results).toMatchObject({
      task: {
        outcome: 'scored',
        reward: 1,
        rewards: { effects: 2 },
        attempts: [{ attempt: 1 }],
        sandboxId: other,
        lineage: { restored: [{ step: 1, sandboxId: other }] },
      },
    });
    expect(repeated(batch, results)).toBe(0);
  });
});

describe('a verifier', () => {
  let deaths = 0;

  it('that dies leaves no reward, in no mean; another one judges what was kept, and no agent runs', async () => {
    deaths += 1;
    const batchId = `verifier-${deaths}`;
    const well = { id: 'well', effects: 1, replies: [exec, done] };
    const dies = { ...well, id: 'dies', verifierDies: true };
    const batch = await stack.start(batchId, [well, dies]);
    const id = rolloutIdOf(batchId, 'dies');

    const results = await stack.finish(batch);

    expect(results).toMatchObject({
      well: unharmed(rolloutIdOf(batchId, 'well'), 1, 2),
      dies: {
        outcome: 'unscored',
        reward: null,
        failure: { class: 'verifier' },
        stopReason: 'done',
        attempts: [{ attempt: 1 }],
      },
    });
    expect(await batchReport(stack.rollouts, batchId)).toMatchObject({
      declared: 2,
      scored: 1,
      meanReward: 1,
    });
    expect(await regrade(batchId, '--only-unscored')).toMatchObject({
      code: 3,
      report: { judged: 0, rollouts: [{ rolloutId: id, before: null, reward: null }] },
    });
    const mended = join(stack.home, 'tasksets', batchId, 'mended.json');
    writeFileSync(mended, JSON.stringify(verifierOf({ ...dies, verifierDies: false })));
    expect(await regrade(batchId, '--only-unscored', '--verifier', mended)).toMatchObject({
      code: 0,
      report: { judged: 1, turned: 1, rollouts: [{ rolloutId: id, before: null, reward: 1 }] },
    });
    expect(await batchReport(stack.rollouts, batchId)).toMatchObject({ scored: 2, meanReward: 1 });
    // What was recorded at its end stays as it was.
    expect(await stack.rollouts.ledger.results([id])).toEqual([results['dies']]);
    expect(batch.model.stats().requests).toBe(4);
  });

  async function regrade(...args: string[]): Promise<{ code: number | null; report: unknown }> {
    const { code, stdout, stderr } = await stack.command('regrade', ...args, '--json');
    if (stdout === '') throw new Error(`regrade exited ${code}: ${stderr}`);
    return { code, report: JSON.parse(stdout) as unknown };
  }
});

describe('a model endpoint', () => {
  let storms = 0;

  it('that limits the rate is waited for: scored, and no wait is charged', async () => {
    storms += 1;
    const batchId = `storm-${storms}`;
    const tasks = [1, 2, 3].map((n) => ({
      id: `task-${n}`,
      limits: { agentTimeoutS: 2 },
      effects: 1,
      replies: [exec, done],
    }));
    const batch = await stack.start(batchId, tasks, {
      fault: { kind: 'rate_limit', retryAfterS: 1.5 },
    });
    await until('each was refused three times', 30, async () => {
      return batch.model.stats().requests >= 9;
    });

    batch.model.setFault(null);

    const results = await stack.finish(batch);
    for (const { id } of tasks) {
      expect(results[id]).toMatchObject(unharmed(rolloutIdOf(batchId, id), 1, 2));
      expect(results[id]?.workedS).toBeLessThan(1.5);
    }
    expect(Object.values(results).map((r) => r.modelCallsReissued)).toEqual([0, 0, 0]);
  });

  it('that gives no answer ends as class model, without a reward', async () => {
    const tasks = [{ id: 'task', effects: 1, replies: [exec, done] }];
    const input = { modelTimeoutS: 1, modelWaitS: 3 };
    const down = await stack.start('down', tasks, { input, fault: { kind: 'hang' } });
    await down.model.close();
    const faults: [string, ScriptedFault, string][] = [
      ['unauthorized', { kind: 'unauthorized' }, 'ModelUnauthorized'],
      ['garbage', { kind: 'garbage' }, 'ModelUnavailable'],
      ['silent', { kind: 'hang' }, 'ModelUnavailable'],
      ['broken', { kind: 'status', status: 503 }, 'ModelUnavailable'],
    ];
    const batches = await Promise.all(
      faults.map(([name, fault]) => stack.start(name, tasks, { input, fault })),
    );

    const ends = await Promise.all([down, ...batches].map((batch) => stack.finish(batch)));

    const types = ['ModelUnavailable', ...faults.map(([, , type]) => type)];
    expect(ends.map(({ task }) => task)).toMatchObject(
      types.map((type) => ({
        outcome: 'unscored',
        reward: null,
        failure: { class: 'model', type },
        attempts: [{ attempt: 1 }],
        modelCalls: 0,
      })),
    );
  });
});

describe('at the end', () => {
  it('leaves no mount, loop device, cgroup or process of this home', async () => {
    await stack.down();

    expect(leftBehind(stack.home)).toEqual([]);
  });
});
