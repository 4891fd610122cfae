import type { WorkflowHandle } from '@temporalio/client';
import { createDocuments } from '../../rollouts/documents';
import { findPoint } from '../../rollouts/trajectory/checkpoints';
import type { Grader } from '../../contracts/task';
import { DenvError } from '../../denv/errors';
import { batch, explore } from '../../workflows';
import {
  checkpointUpdate,
  messageUpdate,
  pauseUpdate,
  resumeUpdate,
} from '../../workflows/messages';
import { FakeDenv, noVerdict } from '../fakes/fake-denv';
import { calls, FakeModel } from '../fakes/fake-model';
import type { TemporalEnv } from '../temporal-env';

const write = calls(['write', { line: 'a' }]);

/** Ways that rollouts go, whose histories today's workflows must be able to replay. Each gives the workflows to record. */
export const scenes: Record<string, (env: TemporalEnv) => Promise<WorkflowHandle[]>> = {
  async nop(env) {
    const { input } = await env.run({ agent: 'nop', task: { setup: [['true']] } });
    return [env.temporal.client.workflow.getHandle(input.rolloutId)];
  },

  async oracle(env) {
    const { input } = await env.run({ agent: 'oracle', task: { solution: [['true']] } });
    return [env.temporal.client.workflow.getHandle(input.rolloutId)];
  },

  /** Paused, spoken to, resumed, and put back to before a step. */
  async restored(env) {
    const denv = new FakeDenv();
    denv.handlers.call = async ({ method }, { key, hang }) => {
      if (method === 'tools/call' && key.endsWith('/1/step/1/call/0')) await hang();
      if (key.endsWith('/1/step/2/call/0')) throw new DenvError('outcome_unknown', 'it died');
      return undefined;
    };
    const input = await env.declare({ leaseS: 5 });
    return env.withWorker({ denv, model: [write, write, { text: 'done' }] }, async ({ start }) => {
      const handle = await start(input);
      await denv.began('/step/1/call/0');
      const { sandboxId } = await handle.executeUpdate(pauseUpdate);
      await handle.executeUpdate(messageUpdate, { args: [{ text: 'hurry' }] });
      denv.release('/step/1/call/0');
      await denv.began(`renew ${sandboxId}`);
      await handle.executeUpdate(resumeUpdate);
      await handle.result();
      return [handle];
    });
  },

  async attempts(env) {
    const denv = new FakeDenv();
    denv.handlers.create = (_request, { key }) => {
      if (key.endsWith('/1/create')) throw new DenvError('controller_failed', 'not ready');
    };
    denv.handlers.verify = (_request, { version }) => noVerdict(version);
    const { input } = await env.run({}, { denv, model: [write, { text: 'done' }] });
    return [env.temporal.client.workflow.getHandle(input.rolloutId)];
  },

  async cancelled(env) {
    const denv = new FakeDenv();
    denv.handlers.call = async ({ method }, { hang }) => {
      if (method === 'tools/call') await hang();
      return undefined;
    };
    const input = await env.declare();
    return env.withWorker({ denv, model: [write] }, async ({ start }) => {
      const handle = await start(input);
      await denv.began('/step/1/call/0');
      await handle.cancel();
      await handle.result().catch(() => undefined);
      return [handle];
    });
  },

  /** The run that ends by continuing as new, and the one that goes on from it. */
  async continued(env) {
    const model = new FakeModel((_request, turn) => (turn < 8 ? write : { text: 'done' }));
    const input = await env.declare();
    return env.withWorker({ model }, async ({ start }) => {
      const handle = await start(input);
      await handle.result();
      const { firstExecutionRunId } = handle;
      const { workflow } = env.temporal.client;
      return [
        workflow.getHandle(input.rolloutId, firstExecutionRunId),
        workflow.getHandle(input.rolloutId),
      ];
    });
  },

  /** A HUD task, with every kind of grader. */
  async hud(env) {
    const graders: Grader[] = [
      { kind: 'judge', name: 'style', model: 'openai/j', criteria: ['Short.'] },
      { kind: 'bash', name: 'tests', command: 'true' },
      { kind: 'verify' },
      { kind: 'hud' },
    ];
    const model = new FakeModel(({ model: { name } }, turn) => {
      if (name === 'openai/j') return { text: 'MET' };
      return turn < 1 ? write : { text: 'done' };
    });
    const { input } = await env.run(
      {
        limits: { runTimeoutS: 600 },
        task: { prompt: undefined, hud: { id: 'add' }, grading: { graders }, setup: [['true']] },
      },
      { model },
    );
    return [env.temporal.client.workflow.getHandle(input.rolloutId)];
  },

  /** A HUD task alone: its start is lost, then its grade, and then all goes well. */
  async 'hud-attempts'(env) {
    const denv = new FakeDenv();
    denv.handlers.call = (_request, { key }) => {
      if (key.endsWith('/1/start') || key.endsWith('/2/grade/hud')) {
        throw new DenvError('outcome_unknown', 'it died');
      }
      return undefined;
    };
    const { input } = await env.run(
      { checkpoints: 'never', task: { hud: { id: 'add' }, verifier: undefined } },
      { denv, model: [{ text: 'done' }] },
    );
    return [env.temporal.client.workflow.getHandle(input.rolloutId)];
  },

  async batch(env) {
    const declared = await Promise.all(
      ['t0', 't1'].map((id) => env.declare({ batchId: 'rec', agent: 'nop', task: { id } })),
    );
    const { ref } = await env.blobs.put(Buffer.from(JSON.stringify(declared)));
    return env.withWorker({}, async ({ taskQueue }) => {
      const handle = await env.temporal.client.workflow.start(batch, {
        workflowId: 'batch/rec',
        taskQueue,
        args: [{ batchId: 'rec', rolloutsRef: ref, declared: 2, concurrency: 1 }],
      });
      await handle.result();
      return [handle];
    });
  },

  /** A tree of two levels, and a continuation of its root. */
  async explore(env) {
    const root = await env.declare();
    return env.withWorker({ model: [write, { text: 'done' }] }, async ({ start, taskQueue }) => {
      const { outcome: state, reward } = await (await start(root)).result();
      const { rolloutId } = root;
      const lineage = { parentRolloutId: null, step: null, depth: 0 };
      const handle = await env.temporal.client.workflow.start(explore, {
        workflowId: 'explore/rec/1',
        taskQueue,
        args: [
          {
            exploreId: 'explore/rec/1',
            root,
            rootNode: { rolloutId, ...lineage, state, reward, checkpoints: [1] },
            strategy: { name: 'tree', count: 1, depth: 2, branch: 1, every: 1, at: 'last' },
            limits: { concurrency: 2, maxContinuations: 10, maxDepth: 5 },
            seed: 0,
          },
        ],
      });
      await handle.result();
      return [handle, env.temporal.client.workflow.getHandle(`${rolloutId}/x1.1`)];
    });
  },

  /** A continuation of a HUD task: its start is made anew, and the recorded call. */
  async replayed(env) {
    const task = { prompt: undefined, verifier: undefined, hud: { id: 'add' } };
    const input = await env.declare({ checkpoints: 'never', task });
    return env.withWorker({ model: [write, write, { text: 'done' }] }, async ({ start }) => {
      const { trajectory, steps } = await (await start(input)).result();
      const progress = { trajectory, checkpoints: [] };
      const last = await findPoint(createDocuments(env.blobs), progress, steps);
      if (!last) throw new Error('no step');
      const from = { parentRolloutId: input.rolloutId, ...last };
      const way = 'replay' as const;
      const child = { ...input, rolloutId: `${input.rolloutId}/e3.1`, from: { ...from, way } };
      const handle = await start(child);
      await handle.result();
      return [handle];
    });
  },

  /** An agent that rolls its world back, and somebody who asks for a checkpoint. */
  async 'rolled-back'(env) {
    const denv = new FakeDenv();
    denv.handlers.call = async ({ method }, { key, hang }) => {
      if (method === 'tools/call' && key.endsWith('/1/step/2/call/0')) await hang();
      return undefined;
    };
    const input = await env.declare({ task: { checkpointTools: true } });
    const model = [
      calls(['checkpoint', { name: 'x' }]),
      write,
      calls(['rollback', { name: 'x' }]),
      { text: 'done' },
    ];
    return env.withWorker({ denv, model }, async ({ start }) => {
      const handle = await start(input);
      await denv.began('/1/step/2/call/0');
      const asked = await handle.startUpdate(checkpointUpdate, { waitForStage: 'ACCEPTED' });
      denv.release('/1/step/2/call/0');
      await asked.result();
      await handle.result();
      return [handle];
    });
  },
};
