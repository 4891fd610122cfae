import { ModelReply, TrajectoryEntry } from '../contracts/trajectory';
import { BlobNotFoundError } from '../stores/blobs';
import type { Documents } from '../rollouts/documents';
import { replyName } from '../rollouts/documents';
import { appendEntries } from '../rollouts/trajectory/chain';
import { activity } from './support/heartbeat';
import type { Parts } from './support/parts';

/** An entry that a workflow has not yet written to the trajectory; everything large is a ref. */
export type PendingEntry =
  | { type: 'person'; step: number; text: string }
  /** Blob ref of an entry that an activity wrote. */
  | { type: 'kept'; ref: string }
  /** A recorded reply whose tool calls came before the rest. */
  | { type: 'reply'; step: number; modelKey: string }
  | { type: 'restored'; step: number; version: string; why: string }
  /** Tool calls of a reply that were not made. */
  | { type: 'skipped'; step: number; modelKey: string; from: number; why: string };

/** How the observation of a call begins that was never made. */
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
      head: await appendEntries(documents, input.head, await readPending(documents, input.pending)),
    })),
  };
}

/** Reads the contents of pending entries. */
export async function readPending(
  documents: Documents,
  pending: PendingEntry[],
): Promise<TrajectoryEntry[]> {
  const entries = await Promise.all(pending.map((entry) => readEntry(documents, entry)));
  return entries.flat();
}

async function readEntry(documents: Documents, entry: PendingEntry): Promise<TrajectoryEntry[]> {
  switch (entry.type) {
    case 'person':
    case 'restored':
      return [entry];
    case 'reply':
      return [
        { type: 'reply', step: entry.step, reply: await readReply(documents, entry.modelKey) },
      ];
    case 'kept':
      return [await documents.get(TrajectoryEntry, entry.ref)];
    case 'skipped': {
      const { toolCalls } = await readReply(documents, entry.modelKey);
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

/** Reads the recorded reply of a model call. @throws BlobNotFoundError */
export async function readReply(documents: Documents, modelKey: string): Promise<ModelReply> {
  const reply = await documents.find(ModelReply, replyName(modelKey));
  if (!reply) throw new BlobNotFoundError(`no reply of ${modelKey} is recorded`);
  return reply;
}
