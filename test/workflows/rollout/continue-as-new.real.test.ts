import { batch } from '../../../workflows';
import { pauseUpdate, resumeUpdate, statusQuery } from '../../../workflows/messages';
import { FakeDenv, reward } from '../../fakes/fake-denv';
import { calls, FakeModel } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';

const write = calls(['write', { line: 'a' }]);

describe('a history that is full', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal({ continueAt: 30 });
  });

  afterAll(() => env.close());

  async function runsOf(workflowId: string): Promise<number> {
    const { workflowService, options } = env.temporal.client;
    let runs = 0;
    const query = `WorkflowId = "${workflowId}"`;
    // Visibility follows the history after a moment.
    for (let tries = 0; tries < 100; tries += 1) {
      const found = await workflowService.listWorkflowExecutions({
        namespace: options.namespace,
        query,
      });
      runs = found.executions?.length ?? 0;
      if (runs > 1) return runs;
      await new Promise((done) => setTimeout(done, 100));
    }
    return runs;
  }

  test('a rollout goes on in its next run, in the same sandbox, with what it knows', async () => {
    const model = new FakeModel((_request, turn) => (turn < 12 ? write : { text: 'done' }));

    const { result, input, fakes } = await env.run({ task: { setup: [['true']] } }, { model });

    expect(result).toMatchObject({
      outcome: 'scored',
      stopReason: 'done',
      steps: 13,
      modelCalls: 13,
      toolCalls: 12,
      usage: { promptTokens: 130 },
    });
    expect(result.checkpoints.map(({ step }) => step)).toEqual([
      1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
    ]);
    expect(await runsOf(input.rolloutId)).toBeGreaterThan(2);
    expect(fakes.denv.effectsOf('create')).toHaveLength(1);
    expect(fakes.denv.effectsOf('exec')).toHaveLength(1);
    expect(fakes.denv.deleted).toHaveLength(1);
    expect(fakes.denv.logs.get(result.sandboxId)).toHaveLength(13);
  });

  test('a HUD task is started once, and graded at the end of the last run', async () => {
    const model = new FakeModel((_request, turn) => (turn < 12 ? write : { text: 'done' }));

    const { result, input, fakes } = await env.run(
      { limits: { runTimeoutS: 600 }, task: { hud: { id: 'add' }, verifier: undefined } },
      { model },
    );

    expect(result).toMatchObject({ outcome: 'scored', stopReason: 'done', steps: 13 });
    expect(await runsOf(input.rolloutId)).toBeGreaterThan(2);
    expect([...fakes.denv.hud.values()]).toEqual([
      { start: `${input.rolloutId}/1/start`, grade: `${input.rolloutId}/1/grade/hud` },
    ]);
    expect(fakes.denv.effectsOf('call').filter((key) => key.endsWith('/start'))).toHaveLength(1);
  });

  test('a paused rollout goes on paused', async () => {
    const denv = new FakeDenv();
    denv.handlers.call = async ({ method }, { key, hang }) => {
      if (method === 'tools/call' && key.endsWith('/step/1/call/0')) await hang();
      return undefined;
    };
    const input = await env.declare({ leaseS: 5 });

    await env.withWorker({ denv, model: [write, { text: 'done' }] }, async ({ start, model }) => {
      const handle = await start(input);
      await denv.began('/step/1/call/0');
      await handle.executeUpdate(pauseUpdate);
      denv.release('/step/1/call/0');
      // Each renewal of the lease adds to the history.
      expect(await runsOf(input.rolloutId)).toBeGreaterThan(1);

      const again = env.temporal.client.workflow.getHandle(input.rolloutId);
      expect(await again.query(statusQuery)).toMatchObject({ paused: true, step: 1 });
      expect(model.requests).toHaveLength(1);
      await again.executeUpdate(resumeUpdate);

      expect(await again.result()).toMatchObject({ outcome: 'scored', steps: 2, modelCalls: 2 });
    });
  });

  test('a rollout that is held at the agent’s last word does not ask the model again', async () => {
    const input = await env.declare({ leaseS: 5 });
    let asked: () => void = () => undefined;
    const thinking = new Promise<void>((resolve) => (asked = resolve));
    let answer: () => void = () => undefined;
    const answered = new Promise<void>((resolve) => (answer = resolve));
    const model = new FakeModel([{ text: 'done' }]);
    const complete = model.complete.bind(model);
    model.complete = async (request, options) => {
      asked();
      await answered;
      return complete(request, options);
    };

    await env.withWorker({ model }, async ({ start }) => {
      const handle = await start(input);
      await thinking;
      await handle.executeUpdate(pauseUpdate);
      answer();
      expect(await runsOf(input.rolloutId)).toBeGreaterThan(1);
      await env.temporal.client.workflow.getHandle(input.rolloutId).executeUpdate(resumeUpdate);

      expect(await handle.result()).toMatchObject({ stopReason: 'done', steps: 1, modelCalls: 1 });
    });
  });

  test('a batch goes on, finds its rollouts by id again, and starts none twice', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = async (_request, { key, version, hang }) => {
      if (key.includes('/t0/')) await hang();
      return reward(version, 1);
    };
    const rollouts = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        env.declare({ batchId: 'wide', agent: 'nop', task: { id: `t${n}` } }),
      ),
    );
    const { ref } = await env.blobs.put(Buffer.from(JSON.stringify(rollouts)));

    await env.withWorker({ denv }, async ({ taskQueue }) => {
      const handle = await env.temporal.client.workflow.start(batch, {
        workflowId: 'batch/wide',
        taskQueue,
        args: [{ batchId: 'wide', rolloutsRef: ref, declared: 12, concurrency: 3 }],
      });
      expect(await runsOf('batch/wide')).toBeGreaterThan(1);
      denv.release('/verify/0');

      expect(await handle.result()).toEqual({
        batchId: 'wide',
        declared: 12,
        scored: 12,
        unscored: 0,
      });
      expect(denv.effectsOf('create')).toHaveLength(12);
      expect(denv.sandboxes.size).toBe(0);
    });
  });
});
