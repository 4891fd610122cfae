import { isCancellation } from '@temporalio/workflow';
import type { ModelTurn } from '../activities/model';
import type { PendingEntry } from '../activities/trajectory';
import type { RolloutInput, StopReason } from '../contracts/rollout';
import { activitiesFor } from './activity-options';
import { callKey, modelKey } from './keys';
import { leaseOf, secondsLeft, toolTimeoutS } from './limits';
import { recover } from './recover';
import { charge, worldOf } from './state';
import type { RolloutState } from './state';
import { keepCheckpoint } from './step-work';
import type { StepWork } from './step-work';

/**
 * Makes the tool calls of one reply, one after the other, with a checkpoint before the first that reaches the sandbox. A world
 * that was put back to before the step has all of them made again, under new keys.
 */
export async function makeToolCalls(
  input: RolloutInput,
  state: RolloutState,
  reply: Pick<StepWork, 'turn' | 'spent'>,
): Promise<StopReason | null> {
  const work: StepWork = { ...reply, version: null, observations: [], charged: 0, restores: 0 };
  let end: StopReason | null = null;
  while (end === null && work.observations.length < work.turn.tools.length) {
    if (secondsLeft(input, state) <= 0) {
      end = 'agent_timeout';
      break;
    }
    try {
      await makeOne(input, state, work);
    } catch (error) {
      if (isCancellation(error)) throw error;
      const way = await recover(input, state, work, error);
      if (way === 'go-back') return null;
      if (way !== 'again') end = way.stop;
    }
  }
  state.pending.push(...work.observations, ...skipped(state, work, end));
  return end;
}

async function makeOne(input: RolloutInput, state: RolloutState, work: StepWork): Promise<void> {
  const { step } = state;
  const index = work.observations.length;
  const timeoutS = toolTimeoutS(input, state);
  const checkpoint = work.version === null && wantsCheckpoint(input, state.step, work.turn);
  const summary = `step ${step} call ${index}: ${work.turn.tools[index]}`;
  if (index >= work.charged) state.callsInAttempt += 1;
  const done = await activitiesFor('run', summary, timeoutS).callTool({
    key: callKey(state, step, index),
    sandboxId: worldOf(state).sandboxId,
    leaseS: leaseOf(input),
    step,
    modelKey: modelKey(state, step),
    index,
    timeoutS,
    onOutcomeUnknown: input.onOutcomeUnknown,
    ...(checkpoint ? { snapshot: 'before' as const } : {}),
  });
  if (done.version) keepCheckpoint(state, work, done.version);
  work.observations.push({ type: 'kept', ref: done.ref });
  if (index < work.charged) return;
  work.charged = index + 1;
  state.toolCalls += 1;
  charge(state, done.durationS);
}

function wantsCheckpoint({ checkpoints }: RolloutInput, step: number, turn: ModelTurn): boolean {
  if (typeof checkpoints === 'number') return step % checkpoints === 0;
  switch (checkpoints) {
    case 'step':
      return true;
    case 'mutating':
      return turn.readOnly !== true;
    case 'never':
      return false;
  }
}

/** Calls that are never made still get an observation, so that a transcript has an answer to each. */
function skipped(state: RolloutState, work: StepWork, end: StopReason | null): PendingEntry[] {
  const from = work.observations.length;
  if (from >= work.turn.tools.length && !work.turn.surplus) return [];
  const why =
    end === null
      ? `at most ${work.turn.tools.length} calls of one reply are made`
      : `the rollout stopped (${end})`;
  return [{ type: 'skipped', step: state.step, modelKey: modelKey(state, state.step), from, why }];
}
