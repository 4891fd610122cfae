import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import type { pingWorkflow } from './workflows/ping';
import type { StackBench } from './context';
import { timesIn } from './event-times';
import { limitRow, percentile } from './row';

const count = 60;

/** From the scheduling of an activity to its completion, by the history's own times, and from one to the next. */
export const activity: StackBench = {
  name: 'activity',
  async run({ stack, say }) {
    const { address } = stack().temporal;
    say('bundling a workflow of empty activities');
    const taskQueue = `bench-${randomUUID()}`;
    const connection = await NativeConnection.connect({ address });
    const worker = await Worker.create({
      connection,
      taskQueue,
      workflowsPath: require.resolve('./workflows/ping'),
      activities: { ping: () => Promise.resolve() },
    });
    const client = new Client({ connection: await Connection.connect({ address }) });
    try {
      await worker.runUntil(async () => {
        const start = (n: number) =>
          client.workflow.execute<typeof pingWorkflow>('pingWorkflow', {
            taskQueue,
            workflowId: `${taskQueue}/${n}`,
            args: [{ count }],
          });
        await start(0); // warms both sides
        await start(1);
      });
      const history = await client.workflow.getHandle(`${taskQueue}/1`).fetchHistory();
      const times = timesIn(history.events ?? []);
      const roundTrips = times.map(({ scheduledAt, completedAt }) => completedAt - scheduledAt);
      const steps = times
        .slice(1)
        .map((next, n) => next.scheduledAt - (times[n]?.scheduledAt ?? 0));
      return [
        limitRow(
          {
            name: 'activity',
            what: 'an activity, scheduled to completed, p50',
            unit: 'ms',
            notes: [
              `p95 ${percentile(roundTrips, 0.95).toFixed(1)} ms`,
              `from one step to the next ${percentile(steps, 0.5).toFixed(1)} ms`,
            ],
          },
          percentile(roundTrips, 0.5),
          15,
        ),
      ];
    } finally {
      await client.connection.close();
      await connection.close();
    }
  },
};
