import type { RolloutInput } from '../../contracts/rollout';
import { PackedTask } from '../../contracts/task';
import type { ContinuationWay } from '../../contracts/task';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import { chooseWay } from '../../rollouts/ways';
import type { ChosenWay } from '../../rollouts/ways';
import type { Records } from './connect';
import { editsBetween } from '../../rollouts/trajectory/edits';
import type { EditedObservation } from '../../rollouts/trajectory/edits';
import { RolloutError } from '../../rollouts/errors';
import { readInput } from '../../rollouts/inputs';
import { readEntries } from '../../rollouts/trajectory/chain';

/** Where a rollout was forked from. */
export interface Origin {
  rolloutId: string;
  step: number;
  way: ContinuationWay;
  /** Empty where the task's start was made again. */
  version: string;
  /** The observations that it was shown differently from its parent. */
  edited: EditedObservation[];
  /** What whoever forked it said to it. */
  said: string[];
}

type Store = Pick<Records, 'ledger' | 'blobs' | 'documents'>;

/**
 * Reads where a rollout was forked from, and how its own forks would be continued.
 * @param own  its transcript; empty where nobody tells it
 */
export async function readLineage(
  store: Store,
  rolloutId: string,
  own: TrajectoryEntry[],
): Promise<{ origin: Origin | null; goesOn: ChosenWay | null }> {
  const input = await findInput(store, rolloutId);
  if (!input) return { origin: null, goesOn: null };
  const { task } = await store.documents.get(PackedTask, input.taskRef);
  return { origin: await readOrigin(store, input, own), goesOn: chooseWay(task) };
}

async function findInput(store: Store, rolloutId: string): Promise<RolloutInput | null> {
  try {
    return await readInput(store, rolloutId);
  } catch (error) {
    if (error instanceof RolloutError) return null;
    throw error;
  }
}

async function readOrigin(
  store: Store,
  { from }: RolloutInput,
  own: TrajectoryEntry[],
): Promise<Origin | null> {
  if (!from) return null;
  const { parentRolloutId: rolloutId, step, version, way = 'snapshot', trajectory } = from;
  const shown = own.length > 0 ? own : await readEntries(store.documents, trajectory);
  const result = (await store.ledger.rollout(rolloutId))?.result;
  const parent = await readEntries(store.documents, result?.trajectory ?? '');
  const edited = editsBetween(parent, shown, step);
  return {
    rolloutId,
    step,
    way,
    version,
    edited,
    said: wordsAt(shown, step, wordsAt(parent, step, [])),
  };
}

/** What people said right before a step, without what they had said to the parent there. */
function wordsAt(entries: TrajectoryEntry[], step: number, known: string[]): string[] {
  return entries.flatMap((entry) =>
    entry.type === 'person' && entry.step === step && !known.includes(entry.text)
      ? [entry.text]
      : [],
  );
}
