import { createHash } from 'node:crypto';
import type { RolloutResult } from '../../contracts/rollout';
import { TrajectoryNode } from '../../contracts/trajectory';
import type { ModelReply, TrajectoryEntry } from '../../contracts/trajectory';
import type { BlobStore } from '../../stores/blobs';
import type { RolloutRow } from '../../stores/ledger';

/** A link of a trajectory among all that begin like it. */
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
 * The trajectories of rollouts as trees: what several of them begin with is one and the same link. Rollouts of one task begin with
 * the same prompt, so the repeats of a task are siblings too; rollouts of different tasks share nothing.
 * @returns the links, each after its parent, and where each rollout ends (null: nowhere)
 */
export async function trainingTree(
  blobs: BlobStore,
  rows: EndedRow[],
): Promise<{ links: TrainingLink[]; endOf: Map<string, TrainingLink | null> }> {
  const links = new Map<string, TrainingLink>();
  const endOf = new Map<string, TrainingLink | null>();
  for (const row of rows) {
    const end = await linkAt(blobs, links, row.taskId, row.result.trajectory);
    endOf.set(row.rolloutId, end);
    end?.ends.push(row);
    for (let link = end; link; link = link.parent) link.leaves.push(row);
  }
  return { links: [...links.values()], endOf };
}

async function linkAt(
  blobs: BlobStore,
  links: Map<string, TrainingLink>,
  taskId: string,
  head: string,
): Promise<TrainingLink | null> {
  const chain: { ref: string; node: TrajectoryNode }[] = [];
  let parent: TrainingLink | null = null;
  for (let ref: string | null = head === '' ? null : head; ref !== null;) {
    const known = links.get(idOf(taskId, ref));
    if (known) {
      parent = known;
      break;
    }
    const data: Buffer = await blobs.get(ref);
    const node = TrajectoryNode.parse(JSON.parse(data.toString()));
    chain.push({ ref, node });
    ref = node.prev;
  }
  for (const { ref, node } of chain.reverse()) {
    const id = idOf(taskId, ref);
    const { entries } = node;
    const link: TrainingLink = { id, taskId, parent, children: [], entries, leaves: [], ends: [] };
    parent?.children.push(link);
    links.set(id, link);
    parent = link;
  }
  return parent;
}

/** Equal for equal beginnings of one task. */
function idOf(taskId: string, ref: string): string {
  return createHash('sha256').update(`${taskId} ${ref}`).digest('hex').slice(0, 24);
}

export const replyOf = ({ entries }: TrainingLink): ModelReply | undefined =>
  entries.find((entry) => entry.type === 'reply')?.reply;
