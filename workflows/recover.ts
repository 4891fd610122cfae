import type { RolloutInput, StopReason } from '../contracts/rollout';
import { troubleOf } from './failures';
import type { Trouble } from './failures';
import { defaultMaxAttempts } from './limits';
import { worldOf } from './state';
import type { RolloutState } from './state';
import { keepCheckpoint } from './step-work';
import type { StepWork } from './step-work';
import { restoreWorld } from './worlds';

export type Recovery =
  /** Make the step's calls again: the world is as it was before them. */
  | 'again'
  /** An earlier checkpoint was gone back to: ask the model anew from there. */
  | 'go-back'
  | { stop: StopReason };

/**
 * What to do about a tool call that gave no reply. What cannot be mended here is thrown on, and a new attempt follows or not by
 * its class. A HUD task lives in its sandbox's memory, so no version has it and nothing is restored.
 */
export async function recover(
  input: RolloutInput,
  state: RolloutState,
  work: StepWork,
  error: unknown,
): Promise<Recovery> {
  const trouble = troubleOf(error, 'loop');
  const { hud } = worldOf(state).task;
  switch (trouble.failure.type) {
    case 'OutcomeUnknown':
      if (hud) throw error;
      return afterUnknown(input, state, work, { trouble, error });
    case 'SandboxStopped':
      return trouble.details.evidence?.by === 'outside'
        ? afterHostLoss(input, state, work, { trouble, error })
        : lost(state, trouble);
    case 'SandboxNotFound':
      return afterHostLoss(input, state, work, { trouble, error });
    case 'ControllerFailed':
      if (state.callsInAttempt <= 1) throw error;
      return lost(state, trouble);
    default:
      throw error;
  }
}

interface Thrown {
  trouble: Trouble;
  error: unknown;
}

/** The agent's own doing: what it left is verified, and there is no second try. */
function lost(state: RolloutState, { failure }: Trouble): Recovery {
  state.agentFailure = { ...failure, class: 'agent' };
  return { stop: 'sandbox_lost' };
}

/** Nobody knows whether the call had its effect, so nothing is guessed: go on from before the step, where it had none. */
async function afterUnknown(
  input: RolloutInput,
  state: RolloutState,
  work: StepWork,
  { trouble, error }: Thrown,
): Promise<Recovery> {
  if (trouble.details.version) keepCheckpoint(state, work, trouble.details.version);
  const most = input.limits.maxAttempts ?? defaultMaxAttempts;
  if (input.onOutcomeUnknown === 'fail' || work.version === null || work.restores >= most) {
    throw error;
  }
  return again(input, state, work, work.version, 'the outcome of a call is unknown');
}

/** The host lost the sandbox: go on from the last checkpoint, once a rollout. */
async function afterHostLoss(
  input: RolloutInput,
  state: RolloutState,
  work: StepWork,
  { trouble, error }: Thrown,
): Promise<Recovery> {
  if (state.hostRestored || worldOf(state).task.hud) throw error;
  if (trouble.details.version) keepCheckpoint(state, work, trouble.details.version);
  const why = 'the host lost the sandbox';
  if (work.version !== null) {
    state.hostRestored = true;
    return again(input, state, work, work.version, why);
  }
  const checkpoint = state.checkpoints.at(-1);
  if (!checkpoint) throw error;
  state.hostRestored = true;
  state.head = checkpoint.trajectory;
  state.pending = [];
  const { step, version } = checkpoint;
  await restoreWorld(input, state, { step, version, why });
  return 'go-back';
}

async function again(
  input: RolloutInput,
  state: RolloutState,
  work: StepWork,
  version: string,
  why: string,
): Promise<Recovery> {
  work.restores += 1;
  work.observations = [];
  await restoreWorld(input, state, { step: state.step, version, why });
  return 'again';
}
