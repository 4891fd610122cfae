import type { StackBench, StackContext } from './context';
import { scriptOf, shellTask, startRollouts } from './rollouts';
import { limitRow } from './row';

const steps = 100;
const observationBytes = 50_000;

/** What Temporal keeps of a long rollout whose observations are large: references to them. */
export const history: StackBench = {
  name: 'history',
  async run(context) {
    const command = `head -c ${observationBytes} /dev/zero | tr '\\0' x`;
    const model = await scriptOf(steps, {
      toolCalls: [{ name: 'bash', arguments: { command } }],
    });
    try {
      const began = performance.now();
      const batch = await startRollouts(context, shellTask, model, { count: 1, concurrency: 1 });
      await batch.end();
      const wallS = (performance.now() - began) / 1000;
      const runs = await historySizes(context, batch.rolloutIds[0] ?? '');
      const mb = runs.map((bytes) => bytes / 1024 ** 2);
      return [
        limitRow(
          {
            name: 'history',
            what: `history of ${steps} steps with ${observationBytes / 1000} KB observations`,
            unit: 'MB',
            other: {
              what: 'the observations themselves',
              value: (steps * observationBytes) / 1024 ** 2,
            },
            notes: [
              `${runs.length} run${runs.length === 1 ? '' : 's'}`,
              `${((wallS * 1000) / steps).toFixed(0)} ms a step, with its checkpoint`,
            ],
          },
          mb.reduce((sum, size) => sum + size, 0),
          0.3,
        ),
      ];
    } finally {
      await model.close();
    }
  },
};

/** Bytes of each run of a workflow, the last first: a run that continued as new names the one before it. */
async function historySizes({ rollouts }: StackContext, workflowId: string): Promise<number[]> {
  const sizes: number[] = [];
  for (let runId: string | undefined; ;) {
    const handle = rollouts.temporal.workflow.getHandle(workflowId, runId);
    sizes.push((await handle.describe()).historySize ?? 0);
    const { events } = await handle.fetchHistory();
    const start = events?.[0]?.workflowExecutionStartedEventAttributes;
    if (!start?.continuedExecutionRunId) return sizes;
    runId = start.continuedExecutionRunId;
  }
}
