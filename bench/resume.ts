import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { WorkflowNotFoundError } from '@temporalio/client';
import { ensureDenvKey } from '../rollouts/home';
import type { StackBench, StackContext } from './context';
import { timesIn } from './event-times';
import { mcpTask, scriptOf, startRollouts } from './rollouts';
import { limitRow, median } from './row';

const rounds = 3;
const modelMs = 1000;

/** kill -9 of the worker that holds the running model call, another one being up, until the next step is recorded. */
export const resume: StackBench = {
  name: 'resume',
  async run(context) {
    const { say } = context;
    const model = await scriptOf(60, {
      delayMs: modelMs,
      toolCalls: [{ name: 'get_config', arguments: { service: 'web' } }],
    });
    let second: ChildProcess | null = null;
    try {
      const times: number[] = [];
      for (let n = 0; n < rounds; n += 1) {
        second ??= await startWorker(context);
        const started = { count: 1, concurrency: 1 };
        const { rolloutIds } = await startRollouts(context, mcpTask, model, started);
        const rolloutId = rolloutIds[0] ?? '';
        const pid = await holderOfModelCall(context, rolloutId, () => model.stats().open);
        process.kill(pid, 'SIGKILL');
        if (pid === second.pid) second = null;
        const ms = await nextActivityAfter(context, rolloutId, Date.now());
        say(`worker ${pid} killed; the next activity was recorded after ${Math.round(ms)} ms`);
        times.push(ms / 1000);
        await context.rollouts.temporal.workflow.getHandle(rolloutId).cancel();
        await allWorkersReady(context);
      }
      return [
        limitRow(
          {
            name: 'resume',
            what: 'kill -9 of a worker until the next recorded step',
            unit: 's',
            notes: [
              `slowest ${Math.max(...times).toFixed(1)} s, the asked-again model call of ${modelMs / 1000} s included`,
            ],
          },
          median(times),
          10,
        ),
      ];
    } finally {
      second?.kill('SIGTERM');
      await model.close();
    }
  },
};

async function startWorker({ env, settings, stack }: StackContext): Promise<ChildProcess> {
  const state = stack();
  const worker = spawn(process.execPath, [join(__dirname, '../worker/main.js')], {
    env: {
      ...env,
      TEMPORAL_ADDRESS: state.temporal.address,
      TEMPORAL_NAMESPACE: settings.namespace,
      DENV_SERVER: state.denv.address,
      DENV_API_KEY: ensureDenvKey(settings.paths),
      ROLLOUTS_TASK_QUEUE: settings.taskQueue,
    },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  for await (const line of createInterface({ input: worker.stdout })) {
    if (line.startsWith('{"ready":true')) break;
  }
  worker.stdout.resume();
  return worker;
}

/** Waits for a model call to be out, a few steps on, and tells whose it is. */
async function holderOfModelCall(
  { rollouts }: StackContext,
  rolloutId: string,
  openCalls: () => number,
): Promise<number> {
  const handle = rollouts.temporal.workflow.getHandle(rolloutId);
  for (let seen = 0; ; await pause(50)) {
    const described = await handle.describe().catch(notStartedYet);
    const call = described?.raw.pendingActivities?.find(
      ({ activityType }) => activityType?.name === 'runStep',
    );
    if (!call || openCalls() === 0) continue;
    seen += 1;
    const pid = Number(call.lastWorkerIdentity?.split('@')[0]);
    if (seen > 20 && pid > 0) return pid;
  }
}

/** Its batch starts it in its own time. */
function notStartedYet(error: unknown): null {
  if (error instanceof WorkflowNotFoundError) return null;
  throw error;
}

async function nextActivityAfter(
  { rollouts }: StackContext,
  rolloutId: string,
  killedAt: number,
): Promise<number> {
  const handle = rollouts.temporal.workflow.getHandle(rolloutId);
  for (; ; await pause(100)) {
    const { events } = await handle.fetchHistory();
    const next = timesIn(events ?? []).find(({ completedAt }) => completedAt > killedAt);
    if (next) return next.completedAt - killedAt;
  }
}

async function allWorkersReady({ stack }: StackContext): Promise<void> {
  while (stack().services.some(({ state }) => state !== 'ready')) await pause(50);
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
