import { WorkflowNotFoundError } from '@temporalio/client';
import type { Client } from '@temporalio/client';
import type { Sandbox } from '../contracts/denv';
import type { DenvClient } from '../denv/client';
import { namespaceId } from './owner';

export interface ReaperParts {
  denv: DenvClient;
  temporal: Client;
  /** As `ownerLabel` makes it. */
  owner: string;
  say: (message: string, fields: Record<string, unknown>) => void;
}

/**
 * Deletes the sandboxes of this owner whose lease is over and whose rollout is closed, or not known to Temporal. What is left
 * behind by a termination goes this way. A failed or partial answer deletes nothing.
 * @returns ids of the deleted
 */
export async function reapOnce(parts: ReaperParts, now: Date): Promise<string[]> {
  const { denv, temporal, owner, say } = parts;
  const { sandboxes } = await denv.listSandboxes({ owner });
  const over = sandboxes.filter(
    ({ leaseUntil, labels }) =>
      labels.owner === owner && labels.rolloutId && Date.parse(leaseUntil) < now.getTime(),
  );
  if (over.length === 0) return [];
  // A namespace that is not found makes every workflow in it "not found", which says nothing of the rollouts.
  const asked = await namespaceId(temporal.workflowService, temporal.options.namespace);
  if (!owner.endsWith(`/${asked}`)) return [];
  const deleted: string[] = [];
  for (const sandbox of over) {
    const state = await rolloutState(temporal, sandbox);
    if (state === 'RUNNING') continue;
    await denv.deleteSandbox(sandbox.id);
    say('deleted a sandbox that its rollout left behind', {
      ...sandbox.labels,
      id: sandbox.id,
      state,
    });
    deleted.push(sandbox.id);
  }
  return deleted;
}

async function rolloutState(temporal: Client, { labels }: Sandbox): Promise<string> {
  try {
    const handle = temporal.workflow.getHandle(labels.rolloutId ?? '');
    return (await handle.describe()).status.name;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return 'NOT_FOUND';
    throw error;
  }
}

/** Reaps now and at every interval, one round at a time. A round that fails is said and tried again at the next. */
export function startReaper(parts: ReaperParts, everyMs: number): { stop: () => Promise<void> } {
  let stopped = false;
  let wake: () => void = () => undefined;
  const rounds = (async () => {
    while (!stopped) {
      try {
        await reapOnce(parts, new Date());
      } catch (error) {
        parts.say('the reaper could not look, and deletes nothing', { error: String(error) });
      }
      if (stopped) return;
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, everyMs);
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  })();
  return {
    async stop() {
      stopped = true;
      wake();
      await rounds;
    },
  };
}
