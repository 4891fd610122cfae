import type { StepOutput } from '../../activities/step';
import type { PendingEntry } from '../../activities/trajectory';
import type { Checkpoint } from '../../contracts/rollout';
import type { Rollout } from './live-rollout';

/** One reply's tool calls while they are made. */
export interface StepWork {
  turn: StepOutput;
  /** Spent before the reply: what a continuation from before this step has already used. */
  spent: Checkpoint['spent'];
  /** Working time at which the step has used all that it was given: the same for an activity that makes its calls. */
  endsAtWorkedS: number;
  /** Version taken before the step's first call. */
  version: string | null;
  observations: PendingEntry[];
  /** Calls that were counted and charged: those made again in a restored sandbox are not charged again. */
  charged: number;
  restores: number;
}

/** A version exists before it is named here, so a kill in between leaves the checkpoint before this one. */
export function keepCheckpoint(rollout: Rollout, work: StepWork, version: string): void {
  if (work.version !== null) return;
  work.version = version;
  const { head: trajectory } = work.turn;
  rollout.addCheckpoint({ step: rollout.state.step, version, trajectory, spent: work.spent });
}
