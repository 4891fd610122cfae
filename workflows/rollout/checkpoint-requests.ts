import { ApplicationFailure, condition } from '@temporalio/workflow';
import type { Checkpoint } from '../../contracts/rollout';
import { toTrouble } from '../failures';
import { askedKey } from './keys';
import type { Rollout } from './live-rollout';
import { takeSnapshot } from './sandbox';

/** Waits for the next moment between two steps, when the rollout answers with `answerRequests`. */
export async function requestCheckpoint(
  { state }: Rollout,
  canAnswer: () => boolean,
): Promise<Checkpoint> {
  state.checkpointsAsked += 1;
  const ticket = state.checkpointsAsked;
  await condition(() => state.answered.upTo >= ticket || !canAnswer());
  const { upTo, checkpoint, refusal } = state.answered;
  if (upTo < ticket) {
    throw ApplicationFailure.nonRetryable(
      "no checkpoint was taken: the agent's work ended before its next step",
    );
  }
  if (checkpoint) return checkpoint;
  throw ApplicationFailure.nonRetryable(refusal ?? 'no checkpoint was taken');
}

/** True while somebody waits for a checkpoint. */
export const isRequested = ({ state }: Rollout): boolean =>
  state.answered.upTo < state.checkpointsAsked;

/**
 * Takes the checkpoint that somebody asked for, between two steps and once for all who did. Where no version of the sandbox holds
 * the task's state, the checkpoint has none: it can be continued by a replay only.
 */
export async function answerRequests(rollout: Rollout): Promise<void> {
  const { state } = rollout;
  if (!isRequested(rollout)) return;
  const upTo = state.checkpointsAsked;
  try {
    await rollout.writePending();
    state.answered = { upTo, checkpoint: await checkpointNow(rollout), refusal: null };
  } catch (error) {
    const { failure } = toTrouble(error, 'loop');
    const refused = failure.type === 'CapabilityMissing' || failure.type === 'InvalidRequest';
    if (!refused) throw error;
    state.answered = { upTo, checkpoint: null, refusal: failure.message };
  }
}

async function checkpointNow(rollout: Rollout): Promise<Checkpoint> {
  const { state } = rollout;
  const step = state.step + 1;
  const rest = { step, trajectory: state.head, spent: { ...state.spent } };
  if (rollout.sandbox.task.unforkable) return { ...rest, version: '' };
  const known = state.checkpoints.at(-1);
  if (known?.step === step) return known;
  const { version } = await takeSnapshot(rollout, askedKey(state, step), 'checkpoint');
  const checkpoint = { ...rest, version };
  rollout.addCheckpoint(checkpoint);
  return checkpoint;
}
