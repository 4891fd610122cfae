import type { Checkpoint } from '../../contracts/rollout';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import { toMs } from '../documents';
import type { Documents } from '../documents';
import { entriesBefore, headBefore, readLinks, toEntries } from './chain';

/** A rollout as it stands, for whoever forks it: one that runs, or one that has ended. */
export interface Progress {
  /** Head of its transcript. */
  trajectory: string;
  /** The latest of its checkpoints; the transcript names the versions of older ones. */
  checkpoints: Checkpoint[];
}

/**
 * Finds the point before a step: the transcript as the agent had it when it was asked for that step, what was spent until then, and
 * the version that was taken there, which is empty where none was. A step that the transcript has lost, because the rollout went
 * back to a checkpoint before it, is found as long as its checkpoint is listed.
 * @returns null when the rollout has made no such step
 */
export async function findPoint(
  documents: Pick<Documents, 'get' | 'put'>,
  { trajectory, checkpoints }: Progress,
  step: number,
): Promise<Checkpoint | null> {
  const listed = checkpoints.find((checkpoint) => checkpoint.step === step);
  const links = await readLinks(documents, trajectory);
  const entries = toEntries(links);
  if (!stepsIn(entries).includes(step)) return listed ?? null;
  // Not as listed: a checkpoint that was asked for between two steps lacks what a person said after it.
  return {
    step,
    version: listed?.version || (findVersionBefore(entries, step) ?? ''),
    trajectory: await headBefore(documents, links, step),
    spent: listed?.spent ?? spentBefore(entries, step),
  };
}

/** The steps of a transcript, in order. */
export const stepsIn = (entries: TrajectoryEntry[]): number[] =>
  entries.flatMap((entry) => (entry.type === 'reply' ? [entry.step] : []));

/** Finds the version that was taken before a step: it is recorded beside the observation of the step's first call. */
export function findVersionBefore(entries: TrajectoryEntry[], step: number): string | null {
  const found = entries.findLast(
    (entry) => entry.type === 'observation' && entry.step === step && entry.version !== undefined,
  );
  return found?.type === 'observation' ? (found.version ?? null) : null;
}

/** Sums up what the replies and calls before a step used, in their order and rounded after each, as a rollout is charged for them. */
function spentBefore(entries: TrajectoryEntry[], step: number): Checkpoint['spent'] {
  const spent = { tokens: 0, costUsd: 0, workedS: 0 };
  for (const entry of entriesBefore(entries, step)) {
    if (entry.type === 'observation') {
      spent.workedS = toMs(spent.workedS + entry.observation.durationS);
    } else if (entry.type === 'reply') {
      const { usage, durationS } = entry.reply;
      spent.tokens += usage.promptTokens + usage.completionTokens;
      spent.costUsd += usage.costUsd ?? 0;
      spent.workedS = toMs(spent.workedS + durationS);
    }
  }
  return spent;
}
