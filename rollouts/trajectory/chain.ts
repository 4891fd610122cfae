import { TrajectoryNode } from '../../contracts/trajectory';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import type { BlobStore } from '../../stores/blobs';

/** Links of a trajectory's chain, and what can be made of them: nothing that is there is ever changed. */

export interface Link {
  ref: string;
  node: TrajectoryNode;
}

/** Every link of the chain that ends at `head`, oldest first; none for an empty head. */
export async function readLinks(blobs: BlobStore, head: string): Promise<Link[]> {
  const links: Link[] = [];
  for (let ref: string | null = head === '' ? null : head; ref !== null;) {
    const data: Buffer = await blobs.get(ref);
    const node = TrajectoryNode.parse(JSON.parse(data.toString()));
    links.push({ ref, node });
    ref = node.prev;
  }
  return links.reverse();
}

/** Adds a link. The same entries on the same head make the same link. @returns its ref, the new head */
export async function addLink(
  blobs: BlobStore,
  head: string,
  entries: TrajectoryEntry[],
): Promise<string> {
  const node: TrajectoryNode = { prev: head === '' ? null : head, entries };
  return (await blobs.put(Buffer.from(JSON.stringify(node)))).ref;
}

/** Whether the agent had been shown an entry when it was asked for that step. */
export function isBefore(entry: TrajectoryEntry, step: number): boolean {
  switch (entry.type) {
    case 'system':
    case 'prompt':
      return true;
    case 'person':
      return entry.step <= step;
    case 'reply':
    case 'observation':
    case 'restored':
      return entry.step < step;
  }
}

/** The head of a trajectory as it was before `step`: a link that is there, or one made of the part of a link that came before. */
export async function headBefore(blobs: BlobStore, links: Link[], step: number): Promise<string> {
  let head = '';
  for (const { ref, node } of links) {
    const before = node.entries.filter((entry) => isBefore(entry, step));
    if (before.length === node.entries.length) {
      head = ref;
      continue;
    }
    return before.length === 0 ? head : addLink(blobs, head, before);
  }
  return head;
}

export const entriesOf = (links: Link[]): TrajectoryEntry[] =>
  links.flatMap(({ node }) => node.entries);

/** What the replies and calls before `step` have used, as they were charged. */
export function spentBefore(
  entries: TrajectoryEntry[],
  step: number,
): { tokens: number; costUsd: number; workedS: number } {
  const spent = { tokens: 0, costUsd: 0, workedS: 0 };
  for (const entry of entries.filter((one) => isBefore(one, step))) {
    if (entry.type === 'observation') spent.workedS += entry.observation.durationS;
    if (entry.type !== 'reply') continue;
    const { usage, durationS } = entry.reply;
    spent.tokens += usage.promptTokens + usage.completionTokens;
    spent.costUsd += usage.costUsd ?? 0;
    spent.workedS += durationS;
  }
  return { ...spent, workedS: Math.round(spent.workedS * 1000) / 1000 };
}
