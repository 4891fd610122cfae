import type { DenvClient } from '../denv/client';
import type { OpenWork } from '../retention/open-work';
import { isOwnerIn } from '../rollouts/owner';
import { startRounds } from './rounds';

export interface ReaperParts {
  denv: DenvClient;
  rollouts: Pick<OpenWork, 'namespaceId' | 'stateOf'>;
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
  const { denv, rollouts, owner, say } = parts;
  const { sandboxes } = await denv.listSandboxes({ owner });
  const over = sandboxes.filter(
    ({ leaseUntil, labels }) =>
      labels.owner === owner && labels.rolloutId && Date.parse(leaseUntil) < now.getTime(),
  );
  if (over.length === 0) return [];
  if (!isOwnerIn(await rollouts.namespaceId(), owner)) return [];
  const deleted: string[] = [];
  for (const sandbox of over) {
    const state = await rollouts.stateOf(sandbox.labels.rolloutId ?? '');
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

/** Reaps now and at every interval, one round at a time. A round that fails is said and tried again at the next. */
export function startReaper(parts: ReaperParts, everyMs: number): { stop: () => Promise<void> } {
  return startRounds(
    () => reapOnce(parts, new Date()),
    everyMs,
    (error) =>
      parts.say('the reaper could not look, and deletes nothing', { error: String(error) }),
  );
}
