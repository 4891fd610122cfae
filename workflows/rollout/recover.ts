import { isCancellation, log } from '@temporalio/workflow';
import type { RolloutInput, StopReason } from '../../contracts/rollout';
import { troubleOf } from '../failures';
import type { Trouble } from '../failures';
import { defaultMaxAttempts } from './limits';
import { worldOf } from './state';
import type { RolloutState } from './state';
import { keepCheckpoint } from './step-work';
import type { StepWork } from './step-work';
import { notUndone, restoreWorld } from './sandbox';

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
  const { type } = trouble.failure;
  if (type === 'OutcomeUnknown' && !hud) {
    return afterUnknown(input, state, work, { trouble, error });
  }
  if (wasLostByHost(trouble)) return afterHostLoss(input, state, work, { trouble, error });
  // A controller that fails at the first call of an attempt may never have worked: a new attempt is made.
  if (type === 'SandboxStopped' || (type === 'ControllerFailed' && state.callsInAttempt > 1)) {
    return lost(state, trouble);
  }
  throw error;
}

const wasLostByHost = ({ failure: { type }, details }: Trouble): boolean =>
  type === 'SandboxNotFound' || (type === 'SandboxStopped' && details.evidence?.by === 'outside');

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
  return again(input, state, work, work.version, `the outcome of a call is unknown; ${notUndone}`);
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
  const why = `the host lost the sandbox; ${notUndone}`;
  if (work.version !== null) {
    state.hostRestored = true;
    return again(input, state, work, work.version, why);
  }
  if (!(await goBack(input, state, why))) throw error;
  return 'go-back';
}

/**
 * A sandbox that the host lost where no tool call was out: while the model thought, while the rollout was held, before the
 * verifier. Once a rollout, it goes on from its last checkpoint; false where it cannot.
 */
export async function restoreLost(
  input: RolloutInput,
  state: RolloutState,
  error: unknown,
): Promise<boolean> {
  const { stage, world } = state;
  const lostByHost = wasLostByHost(troubleOf(error, stage));
  const atWork = stage === 'loop' || stage === 'verify';
  if (!lostByHost || !atWork || !world || world.task.hud || state.hostRestored) return false;
  try {
    if (!(await goBack(input, state, `the host lost the sandbox; ${notUndone}`))) return false;
  } catch (trouble) {
    if (isCancellation(trouble)) throw trouble;
    log.warn('the last checkpoint could not be restored', { trouble });
    return false;
  }
  Object.assign(state, { stage: 'loop', lastWord: null, stopReason: null, agentFailure: null });
  return true;
}

/** Puts world and transcript back to the last checkpoint; false when there is none. */
async function goBack(input: RolloutInput, state: RolloutState, why: string): Promise<boolean> {
  const checkpoint = state.checkpoints.at(-1);
  if (!checkpoint) return false;
  const { step, version, trajectory } = checkpoint;
  state.hostRestored = true;
  state.head = trajectory;
  state.pending = [];
  state.named = state.named.filter((one) => one.step < step);
  await restoreWorld(input, state, { step, version, why });
  return true;
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
