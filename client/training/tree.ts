import { createHash } from 'node:crypto';
import type { RolloutResult } from '../../contracts/rollout';
import type { ModelReply, TrajectoryEntry } from '../../contracts/trajectory';
import type { Documents } from '../../rollouts/documents';
import { readLinks } from '../../rollouts/trajectory/chain';
import type { RolloutRow } from '../../stores/ledger';

/** A link of trajectories: one for all of a task's trajectories that begin with the same entries. */
export interface TrainingLink {
  id: string;
  taskId: string;
  parent: TrainingLink | null;
  children: TrainingLink[];
  entries: TrajectoryEntry[];
  /** The rollouts that end here or below. */
  leaves: EndedRow[];
  /** Of those, the ones that end here. */
  ends: EndedRow[];
}

export type EndedRow = RolloutRow & { result: RolloutResult };

/**
 * Reads the trajectories of rollouts as trees: what several of them begin with is one and the same link. Rollouts of one task begin with
 * the same prompt, so the repeats of a task are siblings too. Rollouts of different tasks share nothing.
 * @returns the links, each after its parent, and where each rollout ends (null: nowhere)
 */
export async function readTrainingTree(
  documents: Documents,
  rows: EndedRow[],
): Promise<{ links: TrainingLink[]; endOf: Map<string, TrainingLink | null> }> {
  const links = new Map<string, TrainingLink>();
  const endOf = new Map<string, TrainingLink | null>();
  for (const row of rows) {
    const end = await addChain(documents, links, row.taskId, row.result.trajectory);
    endOf.set(row.rolloutId, end);
    end?.ends.push(row);
    for (let link = end; link; link = link.parent) link.leaves.push(row);
  }
  return { links: [...links.values()], endOf };
}

/** Adds the links of one trajectory that are not there yet. @returns the last one; null for an empty trajectory */
async function addChain(
  documents: Documents,
  links: Map<string, TrainingLink>,
  taskId: string,
  head: string,
): Promise<TrainingLink | null> {
  const fresh = await readLinks(documents, head, (ref) => links.has(idOf(taskId, ref)));
  const before = fresh[0] ? fresh[0].prev : head;
  let parent = (before && links.get(idOf(taskId, before))) || null;
  for (const { ref, entries } of fresh) {
    const id = idOf(taskId, ref);
    const link: TrainingLink = { id, taskId, parent, children: [], entries, leaves: [], ends: [] };
    parent?.children.push(link);
    links.set(id, link);
    parent = link;
  }
  return parent;
}

/** Two links have the same id when they end the same beginning of the same task. */
function idOf(taskId: string, ref: string): string {
  return createHash('sha256').update(`${taskId} ${ref}`).digest('hex').slice(0, 24);
}

export const replyOf = ({ entries }: TrainingLink): ModelReply | undefined =>
  entries.find((entry) => entry.type === 'reply')?.reply;
