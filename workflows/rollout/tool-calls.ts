import { isCancellation } from '@temporalio/workflow';
import type { CallToolOutput } from '../../activities/calls';
import type { PendingEntry } from '../../activities/trajectory';
import type { RolloutInput, StopReason } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { failed } from '../failures';
import { callsKey, modelKey } from './keys';
import { defaultToolTimeoutS, leaseOf, timeUp } from './limits';
import { makeOwnCall } from './checkpoint-tools';
import { recover } from './recover';
import { charge, toMs, worldOf } from './state';
import type { RolloutState } from './state';
import { keepCheckpoint } from './step-work';
import type { StepWork } from './step-work';

/**
 * Takes in the tool calls that a step has made, and makes those that are left, one after the other: after trouble with one, and
 * after a failure that may heal. A world that was put back to before the step has all of them made again, under new keys.
 */
export async function makeToolCalls(
  input: RolloutInput,
  state: RolloutState,
  reply: Pick<StepWork, 'turn' | 'spent' | 'endsAtWorkedS'>,
): Promise<StopReason | null> {
  const work: StepWork = { ...reply, version: null, observations: [], charged: 0, restores: 0 };
  for (const done of work.turn.made ?? []) {
    countCall(state, work);
    takeIn(state, work, done);
  }
  let { trouble } = work.turn;
  let end: StopReason | null = null;
  while (end === null && work.observations.length < work.turn.tools.length) {
    end = timeUp(input, state) ?? (stepLeft(state, work) <= 0 ? 'run_timeout' : null);
    if (end) break;
    try {
      countCall(state, work);
      if (trouble) throw failed(trouble.type, trouble.message, trouble.details);
      takeIn(state, work, await makeOne(input, state, work));
    } catch (error) {
      trouble = undefined;
      if (isCancellation(error)) throw error;
      const way = await recover(input, state, work, error);
      if (way === 'go-back') return null;
      if (way !== 'again') end = way.stop;
    }
  }
  state.pending.push(...work.observations, ...skipped(state, work, end));
  return end;
}

function makeOne(
  input: RolloutInput,
  state: RolloutState,
  work: StepWork,
): Promise<CallToolOutput> {
  const { step } = state;
  const index = work.observations.length;
  if (work.turn.ours?.includes(index)) {
    return makeOwnCall(input, state, { index, tool: work.turn.tools[index] ?? '' });
  }
  const toolTimeoutS = input.limits.toolTimeoutS ?? defaultToolTimeoutS;
  const timeoutS = Math.min(toolTimeoutS, stepLeft(state, work));
  const checkpoint = work.version === null && work.turn.checkpoint;
  const summary = `step ${step} call ${index}: ${work.turn.tools[index]}`;
  return activitiesFor('run', summary, timeoutS).callTool({
    key: `${callsKey(state, step)}/${index}`,
    sandboxId: worldOf(state).sandboxId,
    leaseS: leaseOf(input),
    step,
    modelKey: modelKey(state, step),
    index,
    timeoutS,
    onOutcomeUnknown: input.onOutcomeUnknown,
    ...(checkpoint ? { snapshot: input.checkpoints === 'mutating' ? 'changed' : 'before' } : {}),
  });
}

/** Seconds left to the step, by what was charged for it and not by a clock: a call that is asked for again has the same limit. */
const stepLeft = ({ spent }: RolloutState, { endsAtWorkedS }: StepWork): number =>
  toMs(endsAtWorkedS - spent.workedS);

/** Counts the next call, before it is known how it ends. */
function countCall(state: RolloutState, work: StepWork): void {
  if (work.observations.length >= work.charged) state.callsInAttempt += 1;
}

function takeIn(state: RolloutState, work: StepWork, done: CallToolOutput): void {
  const index = work.observations.length;
  if (done.version) keepCheckpoint(state, work, done.version);
  work.observations.push({ type: 'kept', ref: done.ref });
  if (index < work.charged) return;
  work.charged = index + 1;
  state.toolCalls += 1;
  charge(state, done.durationS);
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
