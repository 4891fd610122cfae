import { condition, isCancellation, workflowInfo } from '@temporalio/workflow';
import type { StepInput, StepOutput } from '../../activities/step';
import type { RolloutInput, StopReason } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { toTrouble } from '../failures';
import { answerRequests, isRequested } from './checkpoint-requests';
import { callsKey, modelKey } from './keys';
import { limitMet, modelLimits, runEndsAtMs, secondsLeft, timeUp, toolTimeoutS } from './limits';
import type { Rollout } from './live-rollout';
import { runSolution } from './solution';
import { toMs } from './state';
import { makeToolCalls } from './tool-calls';

/** `continue`: the agent is not done, but the history is full; the next run continues the loop. */
export type LoopEnd = StopReason | 'continue';

/** Lets the agent work until it is done, a limit is met or its sandbox is lost. Its last words are in the trajectory then. */
export async function agentLoop(rollout: Rollout): Promise<LoopEnd> {
  await whilePaused(rollout);
  if (rollout.state.paused) return 'continue';
  const end = await runAgent(rollout);
  if (end !== 'continue') await rollout.writePending();
  return end;
}

/** Waits while a rollout is paused, and keeps its sandbox alive. Returns early when the history wants to continue as new. */
async function whilePaused(rollout: Rollout): Promise<void> {
  const { state, leaseS } = rollout;
  while (state.paused && !workflowInfo().continueAsNewSuggested) {
    if (isRequested(rollout)) await answerRequests(rollout);
    const woken = await condition(() => !state.paused || isRequested(rollout), (leaseS * 1000) / 3);
    if (!state.paused) return;
    if (woken) continue;
    await activitiesFor('lease', 'paused: renew lease').renewLease({
      sandboxId: rollout.sandbox.sandboxId,
      leaseS,
    });
  }
}

function runAgent(rollout: Rollout): Promise<LoopEnd> {
  switch (rollout.input.agent) {
    case 'nop':
      return Promise.resolve('done');
    case 'oracle':
      return runSolution(rollout);
    case 'model':
      return modelLoop(rollout);
  }
}

/** Model call → tool calls → observations: a step is one activity, but for what only a workflow can decide. */
async function modelLoop(rollout: Rollout): Promise<LoopEnd> {
  const { state } = rollout;
  for (;;) {
    await whilePaused(rollout);
    await answerRequests(rollout);
    // An answer that came too late is graded, with that told beside it.
    if (state.lastWord && !state.paused && state.inbox.length === 0) {
      return timeUp(rollout) ?? state.lastWord;
    }
    if (workflowInfo().continueAsNewSuggested) return 'continue';
    state.lastWord = null;
    const limit = limitMet(rollout);
    if (limit) return limit;
    takeMessages(rollout);

    const spent = { ...state.spent };
    const workS = secondsLeft(rollout);
    const turn = await runStep(rollout, workS);
    if (typeof turn === 'string') return turn;
    if (turn.finishReason === 'refused') return 'refused';
    if (turn.malformed) return 'malformed_tool_call';

    if (turn.tools.length === 0) {
      // Not yet the end: somebody may hold the rollout, and have a word with the agent.
      state.lastWord = turn.finishReason === 'length' ? 'max_tokens' : 'done';
      continue;
    }
    const end = await makeToolCalls(rollout, {
      turn,
      spent,
      endsAtWorkedS: toMs(spent.workedS + workS),
    });
    if (end) return end;
  }
}

/**
 * One step, with its model call charged; of its tool calls, `makeToolCalls` makes what is left. Returns the stop reason when the
 * model will not, or cannot, answer this transcript.
 */
async function runStep(rollout: Rollout, workS: number): Promise<StepOutput | StopReason> {
  const { input, state } = rollout;
  const step = state.step + 1;
  const { agentRef, sandboxId } = rollout.sandbox;
  const { waitS, timeoutS } = modelLimits(rollout);
  const endsAtMs = runEndsAtMs(rollout);
  let turn: StepOutput;
  try {
    // The last request may go out at the very end of the wait.
    turn = await activitiesFor('step', `step ${step}`, waitS + timeoutS + workS).runStep({
      key: modelKey(state, step),
      step,
      agentRef: agentRef ?? '',
      head: state.head,
      pending: state.pending,
      timeoutS,
      waitS,
      sandboxId,
      leaseS: rollout.leaseS,
      callsKey: callsKey(state, step),
      onOutcomeUnknown: input.onOutcomeUnknown,
      checkpoint: checkpointAt(input, step),
      secondsLeft: workS,
      toolTimeoutS: toolTimeoutS(rollout),
      ...(endsAtMs === null ? {} : { runEndsAtMs: endsAtMs }),
    });
  } catch (error) {
    if (isCancellation(error)) throw error;
    const { failure } = toTrouble(error, 'loop');
    if (failure.type === 'RunTimeout') return 'run_timeout';
    if (failure.type !== 'ContextOverflow' && failure.type !== 'ModelRefused') throw error;
    state.agentFailure = failure;
    return failure.type === 'ModelRefused' ? 'refused' : 'context_overflow';
  }
  state.step = step;
  state.head = turn.head;
  state.pending =
    turn.tools.length > 0 ? [{ type: 'reply', step, modelKey: modelKey(state, step) }] : [];
  chargeTurn(rollout, turn);
  return turn;
}

function checkpointAt({ checkpoints }: RolloutInput, step: number): StepInput['checkpoint'] {
  if (typeof checkpoints !== 'number') return checkpoints;
  return step % checkpoints === 0 ? 'step' : 'never';
}

function chargeTurn(rollout: Rollout, turn: StepOutput): void {
  const { state } = rollout;
  state.modelCalls += 1;
  state.modelCallsReissued += turn.reissued ?? 0;
  const [promptTokens, completionTokens] = turn.tokens;
  state.spent.tokens += promptTokens + completionTokens;
  state.spent.costUsd += turn.costUsd ?? 0;
  rollout.charge(turn.durationS);
  if (turn.ids) rollout.countTokenIds(turn.ids);
  state.usage.promptTokens += promptTokens;
  state.usage.completionTokens += completionTokens;
  if (turn.costUsd !== null) state.usage.costUsd = (state.usage.costUsd ?? 0) + turn.costUsd;
}

/** What people wrote goes into the trajectory before the next model call. */
function takeMessages({ state }: Rollout): void {
  for (const text of state.inbox)
    state.pending.push({ type: 'person', step: state.step + 1, text });
  state.inbox = [];
}
