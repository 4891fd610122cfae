import { isCancellation } from '@temporalio/workflow';
import type { ModelTurn } from '../activities/model';
import type { PendingEntry } from '../activities/trajectory';
import type { RolloutInput, StopReason } from '../contracts/rollout';
import { activitiesFor, leaseS } from './activity-options';
import { callKey, modelKey } from './keys';
import { secondsLeft, toolTimeoutS } from './limits';
import { recover } from './recover';
import type { RolloutState, World } from './state';
import { keepCheckpoint } from './step-work';
import type { StepWork } from './step-work';

export interface CallsMade {
  world: World;
  /** Set when the loop ends here. */
  end?: StopReason;
}

/**
 * Makes the tool calls of one reply, one after the other, with a checkpoint before the first that reaches the sandbox. A world
 * that was put back to before the step has all of them made again, under new keys.
 */
export async function makeToolCalls(
  input: RolloutInput,
  state: RolloutState,
  world: World,
  reply: Pick<StepWork, 'turn' | 'spent'>,
): Promise<CallsMade> {
  const work: StepWork = { ...reply, version: null, observations: [], charged: 0, restores: 0 };
  let place = world;
  let made: StopReason | null = null;
  while (made === null && work.observations.length < work.turn.tools.length) {
    if (secondsLeft(input, state) <= 0) {
      made = 'agent_timeout';
      break;
    }
    try {
      await makeOne(input, state, place, work);
    } catch (error) {
      if (isCancellation(error)) throw error;
      const way = await recover(input, state, place, work, error);
      if (way.do === 'stop') made = way.reason;
      else place = way.world;
      if (way.do === 'go-back') return { world: place };
    }
  }
  state.pending.push(...work.observations, ...skipped(state, work, made));
  return made === null ? { world: place } : { world: place, end: made };
}

async function makeOne(
  input: RolloutInput,
  state: RolloutState,
  world: World,
  work: StepWork,
): Promise<void> {
  const { step } = state;
  const index = work.observations.length;
  const timeoutS = toolTimeoutS(input, state);
  const checkpoint = work.version === null && wantsCheckpoint(input, state.step, work.turn);
  const summary = `step ${step} call ${index}: ${work.turn.tools[index]}`;
  if (index >= work.charged) state.callsInAttempt += 1;
  const done = await activitiesFor('run', summary, timeoutS).callTool({
    key: callKey(state, step, index),
    sandboxId: world.sandboxId,
    leaseS,
    modelKey: modelKey(state, step),
    index,
    timeoutS,
    onOutcomeUnknown: input.onOutcomeUnknown,
    ...(checkpoint ? { snapshot: 'before' as const } : {}),
  });
  if (done.version) keepCheckpoint(state, work, done.version);
  const version = done.version ? { version: done.version } : {};
  work.observations.push({ type: 'observation', step, ref: done.ref, ...version });
  if (index < work.charged) return;
  work.charged = index + 1;
  state.toolCalls += 1;
  state.spent.workedS += done.durationS;
}

function wantsCheckpoint({ checkpoints }: RolloutInput, step: number, turn: ModelTurn): boolean {
  if (typeof checkpoints === 'number') return step % checkpoints === 0;
  switch (checkpoints) {
    case 'step':
      return true;
    case 'mutating':
      return turn.mutates;
    case 'never':
      return false;
  }
}

/** Calls that are never made still get an observation, so that a transcript has an answer to each. */
function skipped(state: RolloutState, work: StepWork, end: StopReason | null): PendingEntry[] {
  const from = work.observations.length;
  if (from >= work.turn.calls) return [];
  const why =
    end === null
      ? `at most ${work.turn.tools.length} calls of one reply are made`
      : `the rollout stopped (${end})`;
  return [{ type: 'skipped', step: state.step, modelKey: modelKey(state, state.step), from, why }];
}
