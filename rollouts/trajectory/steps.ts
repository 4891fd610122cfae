import { TrajectoryNode } from '../../contracts/trajectory';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import type { BlobStore } from '../../stores/blobs';

/**
 * All entries of a trajectory from its start, by the chain that ends at `head`; empty for an empty head. With `after` only those
 * that come after that link, where it is one of the chain.
 */
export async function readTrajectory(
  blobs: BlobStore,
  head: string,
  after?: string,
): Promise<TrajectoryEntry[]> {
  const parts: TrajectoryEntry[][] = [];
  let ref: string | null = head === '' ? null : head;
  while (ref !== null && ref !== after) {
    const node: TrajectoryNode = TrajectoryNode.parse(
      JSON.parse((await blobs.get(ref)).toString()),
    );
    parts.push(node.entries);
    ref = node.prev;
  }
  return parts.reverse().flat();
}
