import type { RolloutInput } from '../../contracts/rollout';
import { PackedTask } from '../../contracts/task';
import type { ContinuationWay } from '../../contracts/task';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import { wayOf } from '../../rollouts/ways';
import type { ChosenWay } from '../../rollouts/ways';
import type { Records } from './connect';
import { editsBetween } from '../../rollouts/trajectory/edits';
import type { EditedObservation } from '../../rollouts/trajectory/edits';
import { RolloutError } from '../../rollouts/errors';
import { readInput } from '../../rollouts/inputs';
import { readTrajectory } from '../../rollouts/trajectory/steps';

/** What a continuation goes on from. */
export interface Origin {
  rolloutId: string;
  step: number;
  way: ContinuationWay;
  /** Empty where the task's start was made again. */
  version: string;
  /** What it was shown otherwise than its parent. */
  edited: EditedObservation[];
  /** Said to it by whoever forked it. */
  said: string[];
}

type Store = Pick<Records, 'ledger' | 'blobs'>;

/** Where a rollout goes on from, and how others would go on from it. */
export async function lineageOf(
  store: Store,
  rolloutId: string,
  own: TrajectoryEntry[],
): Promise<{ origin: Origin | null; goesOn: ChosenWay | null }> {
  const input = await inputIfKept(store, rolloutId);
  if (!input) return { origin: null, goesOn: null };
  const data = await store.blobs.get(input.taskRef);
  const { task } = PackedTask.parse(JSON.parse(data.toString()));
  return { origin: await originOf(store, input, own), goesOn: wayOf(task) };
}

async function inputIfKept(store: Store, rolloutId: string): Promise<RolloutInput | null> {
  try {
    return await readInput(store, rolloutId);
  } catch (error) {
    if (error instanceof RolloutError) return null;
    throw error;
  }
}

async function originOf(
  store: Store,
  { from }: RolloutInput,
  own: TrajectoryEntry[],
): Promise<Origin | null> {
  if (!from) return null;
  const { parentRolloutId: rolloutId, step, version, way = 'snapshot', trajectory } = from;
  const shown = own.length > 0 ? own : await readTrajectory(store.blobs, trajectory);
  const result = (await store.ledger.rollout(rolloutId))?.result;
  const parent = await readTrajectory(store.blobs, result?.trajectory ?? '');
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

/** What people said right before a step, beyond what they had said to the parent. */
function wordsAt(entries: TrajectoryEntry[], step: number, known: string[]): string[] {
  return entries.flatMap((entry) =>
    entry.type === 'person' && entry.step === step && !known.includes(entry.text)
      ? [entry.text]
      : [],
  );
}
