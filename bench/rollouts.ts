import { randomBytes } from 'node:crypto';
import type { BatchReport } from '../contracts/batch';
import { Task } from '../contracts/task';
import { planBatch } from '../client/api/plan';
import { startBatch } from '../client/api/rollouts';
import { watchBatch } from '../client/api/watch';
import { startScripted, type ScriptedEndpoint } from '../models/scripted/server';
import type { ScriptedReply } from '../models/scripted/script';
import { root, type StackContext } from './context';

const prompt = 'Do the steps.';
const verifier = { image: 'host', command: ['sh', '-c', 'echo 1 > /verdict/reward.txt'] };

/** A task with the example's controller, over MCP/HTTP. */
export const mcpTask = Task.parse({
  id: 'mcp',
  prompt,
  environment: {
    image: 'host',
    files: [{ from: 'examples/incident/build/main.mjs', to: '/app/main.mjs' }],
    controller: {
      kind: 'mcp-http',
      command: ['node', '/app/main.mjs', '--http', '8765'],
      port: 8765,
    },
  },
  verifier,
  limits: { maxSteps: 1000 },
});

export const shellTask = Task.parse({
  id: 'shell',
  prompt,
  environment: { image: 'host' },
  verifier,
  limits: { maxSteps: 1000 },
});

/** `steps` times the same reply, and then a last word. */
export function scriptOf(steps: number, reply: ScriptedReply): Promise<ScriptedEndpoint> {
  const replies = Array.from({ length: steps }, () => reply);
  return startScripted({
    script: { entries: [{ when: prompt, replies: [...replies, { text: 'Done.' }] }] },
  });
}

export interface StartedBatch {
  batchId: string;
  rolloutIds: string[];
  /** Until all have a result. @throws Error when one has no reward */
  end(): Promise<BatchReport>;
}

/** Starts `count` rollouts of a task with what an endpoint says. */
export async function startRollouts(
  { rollouts, settings }: StackContext,
  task: Task,
  model: ScriptedEndpoint,
  { count, concurrency }: { count: number; concurrency: number },
): Promise<StartedBatch> {
  const batchId = `bench-${randomBytes(4).toString('hex')}`;
  const plan = await planBatch(
    { name: 'bench', folder: root, tasks: [task] },
    {
      batchId,
      agent: 'model',
      model: 'scripted',
      baseUrl: `${model.address}/v1`,
      settings: {},
      group: count,
      taskIds: [],
    },
    {
      blobs: rollouts.blobs,
      owner: rollouts.owner,
      searchAttributes: rollouts.searchAttributes,
      priceFile: settings.paths.prices,
    },
  );
  await startBatch(rollouts, plan, concurrency);
  return {
    batchId,
    rolloutIds: plan.rollouts.map(({ rolloutId }) => rolloutId),
    async end() {
      const report = await watchBatch(rollouts, batchId, {
        onResult: () => undefined,
        onQuiet: () => undefined,
      });
      const failed = report.rollouts.find(({ reward }) => reward !== 1);
      if (failed) throw new Error(`${failed.rolloutId} failed: ${JSON.stringify(failed.failure)}`);
      return report;
    },
  };
}
