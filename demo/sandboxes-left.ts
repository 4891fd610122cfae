import { setTimeout as sleep } from 'node:timers/promises';
import type { DemoStack } from './stack';

const patienceMs = 30_000;

/**
 * Sandboxes that live once everything has ended, as `GET /v1/envs` tells: all of them on a stack of our own, else those of
 * these rollouts. A rollout records its result before it removes its sandbox, so the last ones get a moment to go.
 */
export async function sandboxesLeft(
  stack: DemoStack,
  rollouts: { rolloutId: string }[],
): Promise<number> {
  const ours = rollouts.map(({ rolloutId }) => rolloutId);
  const belongs = (labels: Record<string, string>) =>
    stack.own || ours.some((id) => labels['rolloutId']?.startsWith(id));
  const until = Date.now() + patienceMs;
  for (;;) {
    const { sandboxes } = await stack.rollouts.denv.listSandboxes();
    const left = sandboxes.filter(({ state, labels }) => state !== 'deleted' && belongs(labels));
    if (left.length === 0 || Date.now() > until) return left.length;
    await sleep(100);
  }
}
