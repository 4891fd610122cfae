import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { batchReport } from '../../../client/api/watch';
import type { ScriptedFault } from '../../../models/scripted/server';
import { rolloutIdOf } from '../crash-stack';
import { done, exec, verifierOf } from '../crash-tasks';
import { until } from '../until';
import { useCrashStack } from '../use-crash-stack';
import { unharmed } from './expected';

const stack = useCrashStack();

describe('a verifier', () => {
  it('that dies leaves no reward, in no mean; another one judges what was kept, and no agent runs', async () => {
    const batchId = 'verifier';
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
  it('that limits the rate is waited for: scored, and no wait is charged', async () => {
    const batchId = 'storm';
    const tasks = [1, 2, 3].map((n) => ({
      id: `task-${n}`,
      effects: 1,
      replies: [exec, done],
    }));
    const batch = await stack.start(batchId, tasks, {
      fault: { kind: 'rate_limit', retryAfterS: 1.5 },
    });
    await until('each was refused three times', async () => {
      return batch.model.stats().requests >= 9;
    });

    batch.model.setFault(null);

    const results = await stack.finish(batch);
    for (const result of Object.values(results)) {
      expect(result).toMatchObject(unharmed(result.rolloutId, 1, 2));
      // Two waits of 1.5 s lay between three refusals.
      const tookS = (Date.parse(result.endedAt) - Date.parse(result.startedAt)) / 1000;
      expect(tookS - result.workedS).toBeGreaterThanOrEqual(3);
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
