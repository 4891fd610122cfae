import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { handle, readRolloutStatus } from '../../../client/api/rollouts';
import { versionIdOf } from '../../../denv/ids';
import { rolloutIdOf } from '../crash-stack';
import {
  call,
  done,
  exec,
  gatedExec,
  gatedWork,
  httpController,
  slowController,
  untilGo,
  work,
} from '../crash-tasks';
import { until } from '../until';
import { useCrashStack } from '../use-crash-stack';
import { effectsIn, eventsOf, repeated, unharmed } from './expected';

const stack = useCrashStack();

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
    await until('the model is asked', async () => asking.model.stats().open === 1);
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
      const events = (await eventsOf(stack, sandboxId)).filter((event) => event !== 'restarted');
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
    await until('the result is being recorded', async () => {
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
    const events = await eventsOf(stack, results['task']?.sandboxId ?? '');
    expect(events.filter((event) => event === 'verified')).toHaveLength(1);
  });

  it('takes back no reward that was recorded, and runs nothing of it again', async () => {
    const tasks = [{ id: 'task', effects: 1, gatedVerifier: true, replies: [exec, done] }];
    const batch = await stack.start('recorded', tasks);
    const id = rolloutIdOf('recorded', 'task');
    await stack.verifying(id);
    stack.openVerifiers();
    await until('the result', async () => {
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
    await until('its workflow has ended', async () => {
      return (await handle(stack.rollouts, id).describe()).status.name === 'COMPLETED';
    });
    expect(await eventsOf(stack, before['task']?.sandboxId ?? '')).toEqual(
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
    // Its first call took half of the budget: charged twice, or with the time of the kill, it would have left no second one.
    expect(results['time']?.workedS).toBeGreaterThanOrEqual(4);
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
    await until('the lease is over', async () => {
      const [sandbox] = await stack.sandboxes([ended]);
      return sandbox !== undefined && Date.parse(sandbox.leaseUntil) < Date.now();
    });

    await stack.killAndAwait('worker');

    await until('it is removed', async () => (await stack.sandboxes([ended])).length === 0);
    expect(await stack.sandboxes([goesOn])).toMatchObject([{ state: 'running' }]);
    expect(await stack.finish(batch)).toMatchObject({
      ended: { outcome: 'unscored', reward: null, failure: { class: 'infra' } },
      'goes-on': unharmed(goesOn, 1, 2),
    });
  });
});

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
    expect(await effectsIn(stack, version)).toBe(1);
  });
});
