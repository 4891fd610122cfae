import type { RegradeInput } from '../../contracts/regrade';
import type { RolloutResult } from '../../contracts/rollout';
import { DenvError } from '../../denv/errors';
import { regrade } from '../../workflows';
import { FakeDenv, noVerdict, reward } from '../fakes/fake-denv';
import { FakeModel } from '../fakes/fake-model';
import { openTemporal } from '../temporal-env';
import type { RolloutSpec, Running, TemporalEnv } from '../temporal-env';

describe('regrade', () => {
  let env: TemporalEnv;
  let regrades = 0;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  /** Rollouts that have ended, as a regrade names them, and the verifier of the fake from then on. */
  async function ended(
    running: Running,
    count: number,
    spec: RolloutSpec = {},
  ): Promise<{ input: RegradeInput; results: RolloutResult[] }> {
    regrades += 1;
    const batchId = `regraded-${regrades}`;
    const results: RolloutResult[] = [];
    const rollouts: RegradeInput['rollouts'] = [];
    for (let index = 0; index < count; index += 1) {
      const declared = await env.declare({ agent: 'nop', batchId, index, ...spec });
      const result = await (await running.start(declared)).result();
      const version = result.verdicts[0]?.version ?? '';
      results.push(result);
      rollouts.push({ rolloutId: declared.rolloutId, version, taskRef: declared.taskRef });
    }
    const input = { regradeId: `regrade/${batchId}/1`, rollouts, concurrency: 4 };
    return { input, results };
  }

  const start = (running: Running, input: RegradeInput) =>
    env.temporal.client.workflow.start(regrade, {
      workflowId: input.regradeId,
      taskQueue: running.taskQueue,
      args: [input],
    });

  test('judges the kept versions again, without agent, model or sandbox; the own result stays', async () => {
    const denv = new FakeDenv();
    const model = new FakeModel([]);
    denv.handlers.verify = (_request, { version }) => reward(version, 0);

    await env.withWorker({ denv, model }, async (running) => {
      const { input, results } = await ended(running, 3);
      const before = denv.effects.length;
      denv.handlers.verify = (_request, { key, version }) =>
        reward(version, key.includes('/mend/1/') ? 0 : 1);

      const result = await (await start(running, input)).result();

      expect(result).toEqual({ regradeId: input.regradeId, judged: 3, missing: 0 });
      expect(denv.effects.slice(before).sort()).toEqual(
        results.map(({ rolloutId }) => `verify ${input.regradeId}/${rolloutId}/verify/0`),
      );
      const rows = await env.ledger.rollouts({ batchId: results[0]?.batchId });
      expect(rows).toMatchObject([
        { result: { reward: 0 }, regraded: { reward: 1, current: true } },
        { result: { reward: 0 }, regraded: { reward: 0 } },
        { result: { reward: 0 }, regraded: { reward: 1 } },
      ]);
      expect(rows.map((row) => row.result)).toEqual(results);
      expect(rows[0]?.regraded?.verdict).toMatchObject({
        version: input.rollouts[0]?.version,
        of: 'submission',
      });
      expect(model.requests).toHaveLength(0);
    });
  });

  test('a verifier without a verdict is run twice more on the same version', async () => {
    const denv = new FakeDenv();

    await env.withWorker({ denv }, async (running) => {
      const { input } = await ended(running, 2);
      const [first, second] = input.rollouts.map(({ rolloutId }) => rolloutId);
      const before = denv.effects.length;
      denv.handlers.verify = (_request, { key, version }) =>
        key.includes('/mend/0/') && key.endsWith('/2') ? reward(version, 0.5) : noVerdict(version);

      const result = await (await start(running, input)).result();

      expect(result).toMatchObject({ judged: 1, missing: 0 });
      const asked = denv.effects.slice(before).map((effect) => effect.split('/verify/'));
      expect(asked.map(([, n = '']) => n).toSorted((a, b) => a.localeCompare(b))).toEqual([
        '0',
        '0',
        '1',
        '1',
        '2',
        '2',
      ]);
      const rows = await env.ledger.regrades({ regradeId: input.regradeId });
      expect(rows.find((row) => row.rolloutId === first)).toMatchObject({
        reward: 0.5,
        current: true,
      });
      expect(rows.find((row) => row.rolloutId === second)).toMatchObject({
        verdict: { verdict: 'none' },
        reward: null,
        current: false,
        why: 'no verdict: the verifier crashed',
      });
    });
  });

  test('a version that is gone, and a verifier that cannot be run, are named and hold up no other', async () => {
    const denv = new FakeDenv();

    await env.withWorker({ denv }, async (running) => {
      const { input } = await ended(running, 3);
      const [gone, refused] = input.rollouts;
      denv.versions.delete(gone?.version ?? '');
      denv.handlers.verify = (_request, { key, version }) => {
        if (key.includes('/mend/1/')) throw new DenvError('image_not_found', 'no such image');
        return reward(version, 0.5);
      };

      const result = await (await start(running, input)).result();

      expect(result).toMatchObject({ judged: 1, missing: 1 });
      const rows = await env.ledger.regrades({ regradeId: input.regradeId });
      const why = Object.fromEntries(rows.map((row) => [row.rolloutId, row.why]));
      expect(why).toEqual({
        [gone!.rolloutId]: `its snapshot ${gone!.version} has expired or was removed`,
        [refused!.rolloutId]: 'ImageNotFound: no such image',
        [input.rollouts[2]!.rolloutId]: null,
      });
    });
  });

  test('at most so many verifiers run at once', async () => {
    const denv = new FakeDenv();

    await env.withWorker({ denv }, async (running) => {
      const { input } = await ended(running, 4);
      let now = 0;
      let most = 0;
      denv.handlers.verify = async (_request, { version, hang }) => {
        now += 1;
        most = Math.max(most, now);
        await hang();
        now -= 1;
        return reward(version, 1);
      };

      const handle = await start(running, { ...input, concurrency: 2 });
      const keys = input.rollouts.map(({ rolloutId }) => `${rolloutId}/verify/0`);
      await Promise.all(keys.slice(0, 2).map((key) => denv.began(key)));
      for (const key of keys) {
        await denv.began(key);
        denv.release(key);
      }

      expect(await handle.result()).toMatchObject({ judged: 4 });
      expect(most).toBe(2);
    });
  });

  test('a grader beside the verifier counts with what it said when the rollout ended', async () => {
    const denv = new FakeDenv();
    const task = {
      grading: {
        graders: [
          { kind: 'verify' as const, weight: 3 },
          { kind: 'bash' as const, name: 'tests', command: 'true', weight: 1 },
        ],
      },
    };
    denv.handlers.verify = (_request, { version }) => reward(version, 0);

    await env.withWorker({ denv }, async (running) => {
      const { input, results } = await ended(running, 1, { task });
      expect(results[0]?.reward).toBe(0.25);
      denv.handlers.verify = (_request, { version }) => reward(version, 1);

      await (await start(running, input)).result();

      const row = await env.ledger.rollout(results[0]?.rolloutId ?? '');
      expect(row?.regraded).toMatchObject({
        reward: 1,
        rewards: { verify: 1, tests: 1 },
        verdict: { reward: 1 },
      });
      expect(denv.effectsOf('exec').filter((key) => key.includes('grade'))).toHaveLength(1);
    });
  });

  test('cancelling it stops the verifiers and records nothing', async () => {
    const denv = new FakeDenv();

    await env.withWorker({ denv }, async (running) => {
      const { input } = await ended(running, 2);
      denv.handlers.verify = async (_request, { version, hang }) => {
        await hang();
        return reward(version, 1);
      };
      const handle = await start(running, input);
      await Promise.all(input.rollouts.map(({ rolloutId }) => denv.began(`${rolloutId}/verify/0`)));

      await handle.cancel();
      await handle.result().catch(() => undefined);

      expect((await handle.describe()).status.name).toBe('CANCELLED');
      expect(denv.cancelled.filter((key) => key.startsWith(input.regradeId))).toHaveLength(2);
      expect(await env.ledger.regrades({ regradeId: input.regradeId })).toEqual([]);
    });
  });
});

describe('a regrade whose history is full', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal({ continueAt: 60 });
  });

  afterAll(() => env.close());

  test('goes on in its next run, and judges each once', async () => {
    const denv = new FakeDenv();

    await env.withWorker({ denv }, async (running) => {
      const rollouts: RegradeInput['rollouts'] = [];
      for (let index = 0; index < 12; index += 1) {
        const declared = await env.declare({ agent: 'nop', batchId: 'long', index });
        const { verdicts } = await (await running.start(declared)).result();
        const { rolloutId, taskRef } = declared;
        rollouts.push({ rolloutId, version: verdicts[0]?.version ?? '', taskRef });
      }
      const input = { regradeId: 'regrade/long/1', rollouts, concurrency: 3 };
      const handle = await env.temporal.client.workflow.start(regrade, {
        workflowId: input.regradeId,
        taskQueue: running.taskQueue,
        args: [input],
      });

      const result = await handle.result();

      expect(result).toEqual({ regradeId: 'regrade/long/1', judged: 12, missing: 0 });
      const latest = await env.temporal.client.workflow.getHandle(input.regradeId).describe();
      expect(latest.runId).not.toBe(handle.firstExecutionRunId);
      const judged = denv.effectsOf('verify').filter((key) => key.startsWith('regrade/'));
      expect(new Set(judged).size).toBe(12);
      expect(judged).toHaveLength(12);
    });
  });
});
