import { batchReport } from '../../../client/api/watch';
import { forkChildKey, sandboxIdOf, versionIdOf } from '../../../denv/ids';
import { rolloutIdOf } from '../crash-stack';
import {
  call,
  done,
  exec,
  gatedWork,
  httpController,
  slowController,
  untilGo,
  work,
} from '../crash-tasks';
import { settled, until } from '../until';
import { useCrashStack } from '../use-crash-stack';
import { effectsIn, eventsOf, repeated, told, unharmed } from './expected';

const stack = useCrashStack();

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
    expect(await told(stack, results['report'])).toMatch(
      /^worked.*\n.*outcome .* unknown.*\nworked/,
    );
    expect(await told(stack, results['restore'])).toMatch(/^worked.*\nworked.*\nworked/);
    const verified = await eventsOf(stack, results['verify']?.sandboxId ?? '');
    expect(verified.filter((event) => event === 'verified')).toHaveLength(1);
    const made = await stack.finish(making);
    expect(made).toMatchObject({ create: unharmed(rolloutIdOf('denv-making', 'create'), 1, 2) });
    const created = await eventsOf(stack, made['create']?.sandboxId ?? '');
    expect(created.filter((event) => event === 'created')).toHaveLength(1);
    const { scored, meanReward } = await batchReport(stack.rollouts, 'denv');
    expect({ scored, meanReward }).toEqual({ scored: 5, meanReward: 1 });
  });
});

describe('a checkpoint', () => {
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
    await until('the version is being made', async () => {
      if ((await denv.operation(key)).state !== 'running') return false;
      return (await settled(denv.getVersion(versionIdOf(key)))) === null;
    });

    await stack.killAndAwait('denv');

    const { task } = await stack.finish(batch);
    expect(task).toMatchObject({ outcome: 'scored', reward: 1, rewards: { effects: 3 } });
    for (const { step, version } of task?.checkpoints ?? []) {
      if (step > 1) expect([step, await effectsIn(stack, version)]).toEqual([step, step - 1]);
    }
    expect(task?.checkpoints.map(({ step }) => step)).toEqual([1, 2, 3]);
  });
});
