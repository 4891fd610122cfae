import { isCancellation } from '@temporalio/workflow';
import type { CallToolOutput } from '../../activities/calls';
import type { PendingEntry } from '../../activities/trajectory';
import type { StopReason } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { failed } from '../failures';
import { makeOwnCall } from './checkpoint-tools';
import { callsKey, modelKey } from './keys';
import { timeUp, toolTimeoutS } from './limits';
import type { Rollout } from './live-rollout';
import { recover } from './recover';
import { toMs } from './state';
import { keepCheckpoint } from './step-work';
import type { StepWork } from './step-work';

/**
 * Counts the tool calls that a step has made, and makes those that are left, one after the other: after trouble with one, and
 * after a failure that may heal. When the sandbox was restored to before the step, all of them are made again, under new keys.
 */
export async function makeToolCalls(
  rollout: Rollout,
  reply: Pick<StepWork, 'turn' | 'spent' | 'endsAtWorkedS'>,
): Promise<StopReason | null> {
  const { state } = rollout;
  const work: StepWork = { ...reply, version: null, observations: [], charged: 0, restores: 0 };
  for (const done of work.turn.made ?? []) {
    countCall(rollout, work);
    observe(rollout, work, done);
  }
  let { trouble } = work.turn;
  let end: StopReason | null = null;
  while (end === null && work.observations.length < work.turn.tools.length) {
    end = timeUp(rollout) ?? (stepLeft(rollout, work) <= 0 ? 'run_timeout' : null);
    if (end) break;
    try {
      countCall(rollout, work);
      if (trouble) throw failed(trouble.type, trouble.message, trouble.details);
      observe(rollout, work, await makeNext(rollout, work));
    } catch (error) {
      trouble = undefined;
      if (isCancellation(error)) throw error;
      const way = await recover(rollout, work, error);
      if (way === 'go-back') return null;
      if (way !== 'again') end = way.stop;
    }
  }
  state.pending.push(...work.observations, ...skipped(rollout, work, end));
  return end;
}

function makeNext(rollout: Rollout, work: StepWork): Promise<CallToolOutput> {
  const { input, state } = rollout;
  const { step } = state;
  const index = work.observations.length;
  if (work.turn.ours?.includes(index)) {
    return makeOwnCall(rollout, { index, tool: work.turn.tools[index] ?? '' });
  }
  const timeoutS = Math.min(toolTimeoutS(rollout), stepLeft(rollout, work));
  const checkpoint = work.version === null && work.turn.checkpoint;
  const summary = `step ${step} call ${index}: ${work.turn.tools[index]}`;
  return activitiesFor('run', summary, timeoutS).callTool({
    key: `${callsKey(state, step)}/${index}`,
    sandboxId: rollout.sandbox.sandboxId,
    leaseS: rollout.leaseS,
    step,
    modelKey: modelKey(state, step),
    index,
    timeoutS,
    onOutcomeUnknown: input.onOutcomeUnknown,
    ...(checkpoint ? { snapshot: input.checkpoints === 'mutating' ? 'changed' : 'before' } : {}),
  });
}

/** Seconds left to the step, by what was charged for it and not by a clock: a call that is asked for again has the same limit. */
const stepLeft = ({ state }: Rollout, { endsAtWorkedS }: StepWork): number =>
  toMs(endsAtWorkedS - state.spent.workedS);

/** Counts the next call, before it is known how it ends. */
function countCall({ state }: Rollout, work: StepWork): void {
  if (work.observations.length >= work.charged) state.callsInAttempt += 1;
}

function observe(rollout: Rollout, work: StepWork, done: CallToolOutput): void {
  const index = work.observations.length;
  if (done.version) keepCheckpoint(rollout, work, done.version);
  work.observations.push({ type: 'kept', ref: done.ref });
  if (index < work.charged) return;
  work.charged = index + 1;
  rollout.state.toolCalls += 1;
  rollout.charge(done.durationS);
}

/** Calls that are never made still get an observation, so that a transcript has an answer to each. */
function skipped({ state }: Rollout, work: StepWork, end: StopReason | null): PendingEntry[] {
  const from = work.observations.length;
  if (from >= work.turn.tools.length && !work.turn.surplus) return [];
  const why =
    end === null
      ? `at most ${work.turn.tools.length} calls of one reply are made`
      : `the rollout stopped (${end})`;
  return [{ type: 'skipped', step: state.step, modelKey: modelKey(state, state.step), from, why }];
}
