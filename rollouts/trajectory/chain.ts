import { TrajectoryNode } from '../../contracts/trajectory';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import type { Documents } from '../documents';

/**
 * A trajectory is a chain in the blob store: each link holds some entries and names the link before it, and the last one is its
 * head. A link never changes, so trajectories share the links that they begin with. The empty head is the empty trajectory.
 */

interface Link {
  ref: string;
  prev: string | null;
  entries: TrajectoryEntry[];
}

/**
 * Reads the links of the chain that ends at `head`, oldest first.
 * @param isKnown  names a link where reading stops: it and those before it are left out
 * @throws BlobNotFoundError, ContractMismatchError
 */
export async function readLinks(
  documents: Pick<Documents, 'get'>,
  head: string,
  isKnown: (ref: string) => boolean = () => false,
): Promise<Link[]> {
  const links: Link[] = [];
  for (let ref = head === '' ? null : head; ref !== null && !isKnown(ref);) {
    const { prev, entries }: TrajectoryNode = await documents.get(TrajectoryNode, ref);
    links.push({ ref, prev, entries });
    ref = prev;
  }
  return links.reverse();
}

/**
 * Reads the entries of the chain that ends at `head`, oldest first.
 * @param after  leaves out this link and those before it, where it is one of the chain
 */
export async function readEntries(
  documents: Pick<Documents, 'get'>,
  head: string,
  after?: string,
): Promise<TrajectoryEntry[]> {
  return toEntries(await readLinks(documents, head, (ref) => ref === after));
}

export const toEntries = (links: Link[]): TrajectoryEntry[] =>
  links.flatMap(({ entries }) => entries);

/**
 * Writes entries as a new link of the chain. Idempotent: the same entries on the same head make the same link.
 * @returns the new head; the old one where there are no entries
 */
export async function appendEntries(
  documents: Pick<Documents, 'put'>,
  head: string,
  entries: TrajectoryEntry[],
): Promise<string> {
  if (entries.length === 0) return head;
  // Parsed, so that the fields are in one order whoever made the entries.
  return documents.put(TrajectoryNode.parse({ prev: head === '' ? null : head, entries }));
}

/**
 * The entries that the agent had been shown when it was asked for a step: all up to the first one of the step itself. What a
 * person said at a step was said before its reply, so it is among them.
 */
export function entriesBefore(entries: TrajectoryEntry[], step: number): TrajectoryEntry[] {
  const end = entries.findIndex((entry) => !isBefore(entry, step));
  return end < 0 ? entries : entries.slice(0, end);
}

function isBefore(entry: TrajectoryEntry, step: number): boolean {
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

/**
 * Finds the head of a chain as it was before a step. Where the step begins inside a link, the part of the link that came before it
 * is written as a link of its own.
 */
export async function headBefore(
  documents: Pick<Documents, 'put'>,
  links: Link[],
  step: number,
): Promise<string> {
  let head = '';
  for (const { ref, entries } of links) {
    const before = entriesBefore(entries, step);
    if (before.length < entries.length) return appendEntries(documents, head, before);
    head = ref;
  }
  return head;
}
