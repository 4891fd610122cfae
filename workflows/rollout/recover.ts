import { isCancellation, log } from '@temporalio/workflow';
import type { StopReason } from '../../contracts/rollout';
import { toTrouble } from '../failures';
import type { Trouble } from '../failures';
import { maxAttempts } from './limits';
import type { Rollout } from './live-rollout';
import { notUndone, restoreSandbox } from './sandbox';
import { keepCheckpoint } from './step-work';
import type { StepWork } from './step-work';

export type Recovery =
  /** Make the step's calls again: the sandbox is as it was before them. */
  | 'again'
  /** An earlier checkpoint was restored: ask the model anew from there. */
  | 'go-back'
  | { stop: StopReason };

/**
 * Decides what to do about a tool call that gave no reply. An error that cannot be mended here is thrown again, and its class says
 * whether a new attempt follows. A HUD task lives in its sandbox's memory, so no version holds it and nothing is restored.
 */
export async function recover(rollout: Rollout, work: StepWork, error: unknown): Promise<Recovery> {
  const trouble = toTrouble(error, 'loop');
  const { hud } = rollout.sandbox.task;
  const { type } = trouble.failure;
  if (type === 'OutcomeUnknown' && !hud) return afterUnknown(rollout, work, { trouble, error });
  if (wasLostByHost(trouble)) return afterHostLoss(rollout, work, { trouble, error });
  // A controller that fails at the first call of an attempt may never have worked: a new attempt is made.
  const brokeLater = type === 'ControllerFailed' && rollout.state.callsInAttempt > 1;
  if (type === 'SandboxStopped' || brokeLater) return lost(rollout, trouble);
  throw error;
}

const wasLostByHost = ({ failure: { type }, details }: Trouble): boolean =>
  type === 'SandboxNotFound' || (type === 'SandboxStopped' && details.evidence?.by === 'outside');

interface Thrown {
  trouble: Trouble;
  error: unknown;
}

/** The agent ended its own sandbox: what it left is verified, and there is no second try. */
function lost({ state }: Rollout, { failure }: Trouble): Recovery {
  state.agentFailure = { ...failure, class: 'agent' };
  return { stop: 'sandbox_lost' };
}

/** Nobody knows whether the call had its effect, so nothing is guessed: the step is made again from before it, where it had none. */
async function afterUnknown(
  rollout: Rollout,
  work: StepWork,
  { trouble, error }: Thrown,
): Promise<Recovery> {
  if (trouble.details.version) keepCheckpoint(rollout, work, trouble.details.version);
  const mayRestore =
    rollout.input.onOutcomeUnknown !== 'fail' && work.restores < maxAttempts(rollout);
  if (!mayRestore || work.version === null) throw error;
  return again(rollout, work, work.version, `the outcome of a call is unknown; ${notUndone}`);
}

/** The host lost the sandbox: restores the last checkpoint, once in a rollout. */
async function afterHostLoss(
  rollout: Rollout,
  work: StepWork,
  { trouble, error }: Thrown,
): Promise<Recovery> {
  const { state } = rollout;
  if (state.hostRestored || rollout.sandbox.task.hud) throw error;
  if (trouble.details.version) keepCheckpoint(rollout, work, trouble.details.version);
  const why = `the host lost the sandbox; ${notUndone}`;
  if (work.version !== null) {
    state.hostRestored = true;
    return again(rollout, work, work.version, why);
  }
  if (!(await goBack(rollout, why))) throw error;
  return 'go-back';
}

/**
 * Restores the last checkpoint of a sandbox that the host lost while no tool call was out: while the model thought, while the
 * rollout was paused, or before the verifier. It does so once in a rollout; false where it cannot.
 */
export async function restoreLost(rollout: Rollout, error: unknown): Promise<boolean> {
  const { state } = rollout;
  const { stage, world } = state;
  const lostByHost = wasLostByHost(toTrouble(error, stage));
  const atWork = stage === 'loop' || stage === 'verify';
  if (!lostByHost || !atWork || !world || world.task.hud || state.hostRestored) return false;
  try {
    if (!(await goBack(rollout, `the host lost the sandbox; ${notUndone}`))) return false;
  } catch (trouble) {
    if (isCancellation(trouble)) throw trouble;
    log.warn('the last checkpoint could not be restored', { trouble });
    return false;
  }
  Object.assign(state, { stage: 'loop', lastWord: null, stopReason: null, agentFailure: null });
  return true;
}

/** Restores sandbox and transcript to the last checkpoint; false when there is none. */
async function goBack(rollout: Rollout, why: string): Promise<boolean> {
  const { state } = rollout;
  const checkpoint = state.checkpoints.at(-1);
  if (!checkpoint) return false;
  const { step, version, trajectory } = checkpoint;
  state.hostRestored = true;
  state.head = trajectory;
  state.pending = [];
  state.named = state.named.filter((one) => one.step < step);
  await restoreSandbox(rollout, { step, version, why });
  return true;
}

async function again(
  rollout: Rollout,
  work: StepWork,
  version: string,
  why: string,
): Promise<Recovery> {
  work.restores += 1;
  work.observations = [];
  await restoreSandbox(rollout, { step: rollout.state.step, version, why });
  return 'again';
}
