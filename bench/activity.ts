import { randomUUID } from 'node:crypto';
import { Client, Connection } from '@temporalio/client';
import { NativeConnection, Worker } from '@temporalio/worker';
import type { pingWorkflow } from './workflows/ping';
import type { StackBench } from './context';
import { limitRow, percentile } from './row';

const count = 60;

/** From the scheduling of an activity to its completion, by the history's own times, and from one to the next. */
export const activity: StackBench = {
  name: 'activity',
  async run({ temporalAddress: address, say }) {
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
      const { roundTrips, steps } = timesOf(history.events ?? []);
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

interface Event {
  eventId?: unknown;
  eventTime?: { seconds?: unknown; nanos?: number | null } | null;
  activityTaskScheduledEventAttributes?: object | null;
  activityTaskCompletedEventAttributes?: { scheduledEventId?: unknown } | null;
}

function timesOf(events: Event[]): { roundTrips: number[]; steps: number[] } {
  const scheduled = new Map<string, number>();
  const roundTrips: number[] = [];
  for (const event of events) {
    if (event.activityTaskScheduledEventAttributes) {
      scheduled.set(String(event.eventId), millisOf(event));
    }
    const completed = event.activityTaskCompletedEventAttributes;
    const start = completed && scheduled.get(String(completed.scheduledEventId));
    if (start !== undefined && start !== null) roundTrips.push(millisOf(event) - start);
  }
  const starts = [...scheduled.values()];
  const steps = starts.slice(1).map((at, n) => at - (starts[n] ?? at));
  return { roundTrips, steps };
}

const millisOf = (event: Event): number =>
  Number(event.eventTime?.seconds ?? 0) * 1000 + (event.eventTime?.nanos ?? 0) / 1e6;
