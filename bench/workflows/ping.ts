import { proxyActivities } from '@temporalio/workflow';

const { ping } = proxyActivities<{ ping(): Promise<void> }>({ startToCloseTimeout: '10 seconds' });

/** `count` empty activities, one after another: what Temporal itself costs. */
export async function pingWorkflow({ count }: { count: number }): Promise<void> {
  for (let n = 0; n < count; n += 1) await ping();
}
