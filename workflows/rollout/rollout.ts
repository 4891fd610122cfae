import {
  CancellationScope,
  CancelledFailure,
  allHandlersFinished,
  condition,
  continueAsNew,
  isCancellation,
  log,
  upsertSearchAttributes,
  workflowInfo,
} from '@temporalio/workflow';
import type { RolloutInput, RolloutResult } from '../../contracts/rollout';
import { newFailure } from '../../contracts/failures';
import { activitiesFor } from '../activity-options';
import { agentLoop } from './agent-loop';
import { failed, troubleOf } from '../failures';
import { grade } from '../grading/grading';
import { handleMessages } from './handlers';
import { defaultMaxAttempts, timeoutFailure } from './limits';
import { restoreLost } from './recover';
import { resultOf } from './result';
import { endAttributes } from '../search-attributes';
import { beginAttempt, initialState } from './state';
import type { RolloutEnding, RolloutState } from './state';
import { closeSandboxes, openWorld } from './sandbox';

/**
 * One rollout, from an empty sandbox to a recorded reward. Each stage is an activity, so a worker that dies between two of
 * them resumes at the second. The sandbox is deleted on every way out, cancellation included, and the reward is recorded
 * before that. Ends as Cancelled when it was cancelled, with its result recorded all the same.
 */
export async function rollout(input: RolloutInput, carried?: RolloutState): Promise<RolloutResult> {
  const fresh = initialState(input, workflowInfo().startTime.toISOString());
  // A run that an earlier version of this code began knows fewer fields.
  const state = { ...fresh, ...carried };
  const scope = new CancellationScope();
  const handlers = handleMessages(input, state, () => scope.cancel());

  let end: RolloutEnding | 'continue';
  try {
    end = await scope.run(() => attempts(input, state));
  } catch (error) {
    if (!isCancellation(error)) throw error;
    end = cancelled(state);
  }
  if (end === 'continue') {
    handlers.leave();
    await CancellationScope.nonCancellable(() => condition(allHandlersFinished));
    if (!scope.consideredCancelled) return continueAsNew<typeof rollout>(input, state);
    end = cancelled(state);
  }
  const ending = end;
  return CancellationScope.nonCancellable(() => close(input, state, ending));
}

/** Tries until there is an outcome. Only what no agent can cause is tried again: in a new sandbox, from the start. */
async function attempts(
  input: RolloutInput,
  state: RolloutState,
): Promise<RolloutEnding | 'continue'> {
  for (;;) {
    try {
      refuseUnbounded(input);
      if ((await openWorld(input, state)) === 'continue') return 'continue';
      const end = await agentLoop(input, state);
      if (end === 'continue') return end;
      state.stopReason = end;
      state.agentFailure ??= timeoutFailure(input, end);
      const ending = await grade(input, state);
      endAttempt(state, ending.failure);
      return ending;
    } catch (error) {
      if (isCancellation(error)) throw error;
      if (await restoreLost(input, state, error)) continue;
      const { failure, details } = troubleOf(error, state.stage);
      endAttempt(state, failure);
      const most = input.limits.maxAttempts ?? defaultMaxAttempts;
      if (details.again === 'never' || state.attempt >= most) return unscored(failure);
      await closeSandboxes(state);
      beginAttempt(state, input);
    }
  }
}

function refuseUnbounded({ limits, model }: RolloutInput): void {
  if (limits.maxCostUsd === undefined || model.price !== null) return;
  const message = `a cost limit needs the price of ${model.name}, which the price file does not have`;
  throw failed('InvalidRequest', message);
}

function endAttempt(state: RolloutState, failure: RolloutEnding['failure']): void {
  const { attempt, stopReason, world } = state;
  state.attempts.push({ attempt, sandboxId: world?.sandboxId ?? '', failure, stopReason });
}

const unscored = (failure: RolloutEnding['failure']): RolloutEnding => ({
  outcome: 'unscored',
  reward: null,
  rewards: {},
  failure,
  submissionCaused: false,
});

function cancelled(state: RolloutState): RolloutEnding {
  const { stage } = state;
  const message = 'the rollout was cancelled';
  state.stopReason = 'cancelled';
  const failure = newFailure('Cancelled', stage, message);
  endAttempt(state, failure);
  return unscored(failure);
}

/** record → stop. The result stands before anything is torn down. */
async function close(
  input: RolloutInput,
  state: RolloutState,
  end: RolloutEnding,
): Promise<RolloutResult> {
  state.stage = 'record';
  state.end = end;
  const result = resultOf(input, state, end, new Date().toISOString());
  try {
    await activitiesFor('record', `record: ${end.outcome}`).recordResult(result);
  } catch (error) {
    // This workflow's own result holds it too, and the ledger can be rebuilt from that.
    log.error('the ledger did not take the result', { error });
  }
  if (input.searchAttributes) upsertSearchAttributes(endAttributes(input, result));
  state.stage = 'stop';
  await closeSandboxes(state);
  state.stage = 'ended';
  await condition(allHandlersFinished);
  if (end.failure?.class === 'cancelled') await endAsCancelled();
  return result;
}

/** Temporal calls a workflow cancelled only when it asked for that itself, so a `cancel` signal is turned into its request. */
async function endAsCancelled(): Promise<never> {
  const root = CancellationScope.current().parent;
  const { workflowId } = workflowInfo();
  if (root && !root.consideredCancelled) {
    await activitiesFor('record', 'cancel').requestCancel({ workflowId });
    await condition(() => root.consideredCancelled);
  }
  throw new CancelledFailure('the rollout was cancelled');
}
