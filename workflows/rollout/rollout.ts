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
import { failed, toTrouble } from '../failures';
import { grade } from '../grading/grading';
import { endAttributes } from '../search-attributes';
import { agentLoop } from './agent-loop';
import { handleMessages } from './handlers';
import { maxAttempts, timeoutFailure } from './limits';
import { Rollout } from './live-rollout';
import { restoreLost } from './recover';
import { toResult } from './result';
import { closeSandboxes, openSandbox } from './sandbox';
import { initialState } from './state';
import type { RolloutEnding, RolloutState } from './state';

/**
 * One rollout, from an empty sandbox to a recorded reward. Each stage is an activity, so a worker that dies between two of
 * them resumes at the second. The sandbox is deleted on every way out, cancellation included, and the reward is recorded
 * before that. Ends as Cancelled when it was cancelled, with its result recorded all the same.
 */
export async function rollout(input: RolloutInput, carried?: RolloutState): Promise<RolloutResult> {
  const fresh = initialState(input, workflowInfo().startTime.toISOString());
  // A run that an earlier version of this code began knows fewer fields.
  const live = new Rollout(input, { ...fresh, ...carried });
  const scope = new CancellationScope();
  const handlers = handleMessages(live, () => scope.cancel());

  let end: RolloutEnding | 'continue';
  try {
    end = await scope.run(() => tryUntilEnded(live));
  } catch (error) {
    if (!isCancellation(error)) throw error;
    end = endCancelled(live);
  }
  if (end === 'continue') {
    handlers.leave();
    await CancellationScope.nonCancellable(() => condition(allHandlersFinished));
    if (!scope.consideredCancelled) return continueAsNew<typeof rollout>(input, live.state);
    end = endCancelled(live);
  }
  const ending = end;
  return CancellationScope.nonCancellable(() => close(live, ending));
}

/** Makes attempts until there is an outcome. Only what no agent can cause is tried again: in a new sandbox, from the start. */
async function tryUntilEnded(live: Rollout): Promise<RolloutEnding | 'continue'> {
  const { input, state } = live;
  for (;;) {
    try {
      refuseUnbounded(input);
      if ((await openSandbox(live)) === 'continue') return 'continue';
      const end = await agentLoop(live);
      if (end === 'continue') return end;
      state.stopReason = end;
      state.agentFailure ??= timeoutFailure(input, end);
      const ending = await grade(live);
      live.endAttempt(ending.failure);
      return ending;
    } catch (error) {
      if (isCancellation(error)) throw error;
      if (await restoreLost(live, error)) continue;
      const { failure, details } = toTrouble(error, state.stage);
      live.endAttempt(failure);
      if (details.again === 'never' || state.attempt >= maxAttempts(live)) return unscored(failure);
      await closeSandboxes(live);
      live.beginAttempt();
    }
  }
}

function refuseUnbounded({ limits, model }: RolloutInput): void {
  if (limits.maxCostUsd === undefined || model.price !== null) return;
  const message = `a cost limit needs the price of ${model.name}, which the price file does not have`;
  throw failed('InvalidRequest', message);
}

const unscored = (failure: RolloutEnding['failure']): RolloutEnding => ({
  outcome: 'unscored',
  reward: null,
  rewards: {},
  failure,
  submissionCaused: false,
});

function endCancelled(live: Rollout): RolloutEnding {
  const { stage } = live.state;
  const message = 'the rollout was cancelled';
  live.state.stopReason = 'cancelled';
  const failure = newFailure('Cancelled', stage, message);
  live.endAttempt(failure);
  return unscored(failure);
}

/** record → stop. The result stands before anything is torn down. */
async function close(live: Rollout, end: RolloutEnding): Promise<RolloutResult> {
  const { input, state } = live;
  state.stage = 'record';
  state.end = end;
  const result = toResult(live, end, new Date().toISOString());
  try {
    await activitiesFor('record', `record: ${end.outcome}`).recordResult(result);
  } catch (error) {
    // This workflow's own result holds it too, and the ledger can be rebuilt from that.
    log.error('the ledger did not record the result', { error });
  }
  if (input.searchAttributes) upsertSearchAttributes(endAttributes(input, result));
  state.stage = 'stop';
  await closeSandboxes(live);
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
