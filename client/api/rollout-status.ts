import type { ExploreNode } from '../../contracts/exploration';
import type { Checkpoint, RolloutInput } from '../../contracts/rollout';
import { PackedTask } from '../../contracts/task';
import type { ContinuationWay } from '../../contracts/task';
import { refusedWay, chooseWay } from '../../rollouts/ways';
import type { ChosenWay } from '../../rollouts/ways';
import type { Rollouts } from './connect';
import { currentResult } from '../../rollouts/verdicts';
import { UsageError } from '../errors';
import { readDocument } from '../../rollouts/documents';
import { readInput } from '../../rollouts/inputs';
import { readOpenStatus } from './rollouts';

/** A rollout as it stands, running or ended: what can be gone on from. */
export interface Standing {
  input: RolloutInput;
  packed: PackedTask;
  state: ExploreNode['state'];
  reward: number | null;
  /** Replies of the model so far. */
  steps: number;
  trajectory: string;
  checkpoints: Checkpoint[];
}

/**
 * Asks the ledger, and of a rollout that runs its workflow.
 * @throws RolloutError when there is no such rollout, UserError when nobody tells where it is
 */
export async function readStanding(rollouts: Rollouts, rolloutId: string): Promise<Standing> {
  const { blobs, ledger } = rollouts;
  const input = await readInput(rollouts, rolloutId);
  const packed = await readDocument(blobs, PackedTask, input.taskRef);
  const row = await ledger.rollout(rolloutId);
  const result = row && currentResult(row);
  if (result) {
    const { reward, steps, trajectory, checkpoints, failure } = result;
    const state = failure?.class === 'cancelled' ? 'cancelled' : result.outcome;
    return { input, packed, state, reward, steps, trajectory, checkpoints };
  }
  const status = await readOpenStatus(rollouts, rolloutId);
  const { reward, step: steps, trajectory, checkpoints } = status;
  return { input, packed, state: 'running', reward, steps, trajectory, checkpoints };
}

/** How continuations go on from here. @throws UsageError when they cannot go that way */
export function wayFrom({ input, packed }: Standing, asked?: ContinuationWay): ChosenWay {
  const chosen = chooseWay(packed.task, asked);
  const refused = refusedWay(packed.task, chosen.way);
  if (refused === null) return chosen;
  throw new UsageError(
    `${asked ? `--way ${asked}: ` : ''}${input.rolloutId} cannot go on that way: ${refused}`,
  );
}
