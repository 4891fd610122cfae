import { ApplicationFailure, condition } from '@temporalio/workflow';
import type { Checkpoint, RolloutInput } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { troubleOf } from '../failures';
import { askedKey } from './keys';
import { leaseOf } from './limits';
import { addCheckpoint, worldOf } from './state';
import type { RolloutState } from './state';
import { writePending } from './write-pending';

const snapshotTimeoutS = 600;

/** Waits for the next moment between two steps, in which the rollout answers `takeAsked`. */
export async function askForCheckpoint(
  state: RolloutState,
  atWork: () => boolean,
): Promise<Checkpoint> {
  state.checkpointsAsked += 1;
  const ticket = state.checkpointsAsked;
  await condition(() => state.answered.upTo >= ticket || !atWork());
  const { upTo, checkpoint, refusal } = state.answered;
  if (upTo < ticket) throw ApplicationFailure.nonRetryable("the agent's work ended before that");
  if (checkpoint) return checkpoint;
  throw ApplicationFailure.nonRetryable(refusal ?? 'no checkpoint was taken');
}

/**
 * Between two steps: takes the checkpoint that somebody asked for, once for all who did. Where no version holds the world, it has
 * none: from such a checkpoint only a replay can go on.
 */
export async function takeAsked(input: RolloutInput, state: RolloutState): Promise<void> {
  const upTo = state.checkpointsAsked;
  if (state.answered.upTo >= upTo) return;
  try {
    await writePending(state);
    state.answered = { upTo, checkpoint: await checkpointNow(input, state), refusal: null };
  } catch (error) {
    const { failure } = troubleOf(error, 'loop');
    const refused = failure.type === 'CapabilityMissing' || failure.type === 'InvalidRequest';
    if (!refused) throw error;
    state.answered = { upTo, checkpoint: null, refusal: failure.message };
  }
}

async function checkpointNow(input: RolloutInput, state: RolloutState): Promise<Checkpoint> {
  const step = state.step + 1;
  const { task, sandboxId } = worldOf(state);
  const rest = { step, trajectory: state.head, spent: { ...state.spent } };
  if (task.unforkable) return { ...rest, version: '' };
  const known = state.checkpoints.at(-1);
  if (known?.step === step) return known;
  const { version } = await activitiesFor('run', 'checkpoint', snapshotTimeoutS).takeSnapshot({
    key: askedKey(state, step),
    sandboxId,
    rolloutId: input.rolloutId,
    leaseS: leaseOf(input),
  });
  const checkpoint = { ...rest, version };
  addCheckpoint(state, checkpoint);
  return checkpoint;
}
