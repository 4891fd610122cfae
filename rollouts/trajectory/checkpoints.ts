import type { Checkpoint } from '../../contracts/rollout';
import { TrajectoryNode } from '../../contracts/trajectory';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import { toMs } from '../documents';
import type { Documents } from '../documents';

/**
 * Every step of a transcript as a checkpoint without a version: where a replay can go on. What was spent before it is summed up
 * from the replies and observations.
 * @param head  of the trajectory; empty for none
 */
export async function checkpointsIn(documents: Documents, head: string): Promise<Checkpoint[]> {
  const spent: Checkpoint['spent'] = { tokens: 0, costUsd: 0, workedS: 0 };
  const checkpoints: Checkpoint[] = [];
  let before = '';
  for (const { ref, entries } of await linksOf(documents, head)) {
    for (const entry of entries) {
      if (entry.type === 'reply' && before !== '') {
        checkpoints.push({
          step: entry.step,
          version: '',
          trajectory: before,
          spent: { ...spent },
        });
      }
      add(spent, entry);
    }
    before = ref;
  }
  return checkpoints;
}

/** The links of a trajectory's chain, oldest first. A step's reply begins a link. */
async function linksOf(
  documents: Documents,
  head: string,
): Promise<{ ref: string; entries: TrajectoryEntry[] }[]> {
  const links: { ref: string; entries: TrajectoryEntry[] }[] = [];
  for (let ref: string | null = head === '' ? null : head; ref !== null;) {
    const { prev, entries }: TrajectoryNode = await documents.get(TrajectoryNode, ref);
    links.push({ ref, entries });
    ref = prev;
  }
  return links.reverse();
}

function add(spent: Checkpoint['spent'], entry: TrajectoryEntry): void {
  if (entry.type === 'reply') {
    const { usage, durationS } = entry.reply;
    spent.tokens += usage.promptTokens + usage.completionTokens;
    spent.costUsd += usage.costUsd ?? 0;
    spent.workedS = toMs(spent.workedS + durationS);
  } else if (entry.type === 'observation') {
    spent.workedS = toMs(spent.workedS + entry.observation.durationS);
  }
}
