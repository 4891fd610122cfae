import { ModelReply, TrajectoryEntry, TrajectoryNode } from '../contracts/trajectory';
import { BlobNotFoundError } from '../stores/blobs';
import type { Documents } from '../rollouts/documents';
import { replyName } from '../rollouts/documents';
import { activity } from './support/heartbeat';
import type { Parts } from './support/parts';

/** What a workflow has not yet written to the trajectory; everything large is a ref. */
export type PendingEntry =
  | { type: 'person'; step: number; text: string }
  /** Blob ref of an entry that an activity wrote. */
  | { type: 'kept'; ref: string }
  /** A recorded reply whose tool calls came before the rest. */
  | { type: 'reply'; step: number; modelKey: string }
  | { type: 'restored'; step: number; version: string; why: string }
  /** Tool calls of a reply that were not made. */
  | { type: 'skipped'; step: number; modelKey: string; from: number; why: string };

/** How an observation of a call begins that was never made. */
export const notMade = 'This call was not made: ';

export interface AppendInput {
  /** Head of the chain so far; empty for none. */
  head: string;
  pending: PendingEntry[];
}

export function trajectoryActivities({ documents }: Parts) {
  return {
    /** Writes what is pending to the trajectory. Idempotent. @returns the new head */
    appendTrajectory: activity(async (input: AppendInput): Promise<{ head: string }> => ({
      head: await append(documents, input.head, await entriesOf(documents, input.pending)),
    })),
  };
}

/** Adds a link to the chain. The same entries on the same head make the same link. */
export async function append(
  documents: Documents,
  head: string,
  entries: TrajectoryEntry[],
): Promise<string> {
  if (entries.length === 0) return head;
  return documents.put({ prev: head === '' ? null : head, entries } satisfies TrajectoryNode);
}

/** Every entry of the chain, oldest first. */
export async function load(documents: Documents, head: string): Promise<TrajectoryEntry[]> {
  const nodes: TrajectoryNode[] = [];
  for (let ref: string | null = head === '' ? null : head; ref !== null;) {
    const node: TrajectoryNode = await documents.get(TrajectoryNode, ref);
    nodes.push(node);
    ref = node.prev;
  }
  return nodes.reverse().flatMap((node) => node.entries);
}

/** Pending entries with their contents. */
export async function entriesOf(
  documents: Documents,
  pending: PendingEntry[],
): Promise<TrajectoryEntry[]> {
  const entries = await Promise.all(pending.map((entry) => entryOf(documents, entry)));
  return entries.flat();
}

async function entryOf(documents: Documents, entry: PendingEntry): Promise<TrajectoryEntry[]> {
  switch (entry.type) {
    case 'person':
    case 'restored':
      return [entry];
    case 'reply':
      return [{ type: 'reply', step: entry.step, reply: await replyOf(documents, entry.modelKey) }];
    case 'kept':
      return [await documents.get(TrajectoryEntry, entry.ref)];
    case 'skipped': {
      const { toolCalls } = await replyOf(documents, entry.modelKey);
      return toolCalls.slice(entry.from).map((call) => ({
        type: 'observation',
        step: entry.step,
        observation: {
          toolCallId: call.id,
          name: call.name,
          isError: true,
          content: [{ type: 'text', text: `${notMade}${entry.why}` }],
          durationS: 0,
        },
      }));
    }
  }
}

/** The recorded reply of a model call. @throws BlobNotFoundError */
export async function replyOf(documents: Documents, modelKey: string): Promise<ModelReply> {
  const reply = await documents.find(ModelReply, replyName(modelKey));
  if (!reply) throw new BlobNotFoundError(`no reply of ${modelKey} is recorded`);
  return reply;
}
