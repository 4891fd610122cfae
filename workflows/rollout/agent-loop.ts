import { isCancellation, workflowInfo } from '@temporalio/workflow';
import type { StepInput, StepOutput } from '../../activities/step';
import type { RolloutInput, StopReason } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { troubleOf } from '../failures';
import { callsKey, modelKey } from './keys';
import {
  defaultToolTimeoutS,
  leaseOf,
  limitMet,
  modelLimitsOf,
  runEndsAtMs,
  secondsLeft,
  timeUp,
} from './limits';
import { whilePaused } from './pause';
import { runSolution } from './solution';
import { takeAsked } from './checkpoint-requests';
import { charge, noteIds, toMs, worldOf } from './state';
import type { RolloutState } from './state';
import { makeToolCalls } from './tool-calls';
import { writePending } from './write-pending';

/** `continue`: the agent is not done, but the history is full; the loop goes on in the next run. */
export type LoopEnd = StopReason | 'continue';

/** The agent at work: until it is done, a limit is met or its sandbox is lost. What it wrote last is in the trajectory then. */
export async function agentLoop(input: RolloutInput, state: RolloutState): Promise<LoopEnd> {
  await whilePaused(input, state);
  if (state.paused) return 'continue';
  const end = await loopOf(input, state);
  if (end !== 'continue') await writePending(state);
  return end;
}

function loopOf(input: RolloutInput, state: RolloutState): Promise<LoopEnd> {
  switch (input.agent) {
    case 'nop':
      return Promise.resolve('done');
    case 'oracle':
      return runSolution(input, state);
    case 'model':
      return modelLoop(input, state);
  }
}

/** Model call → tool calls → observations: a step is one activity, but for what only a workflow can decide. */
async function modelLoop(input: RolloutInput, state: RolloutState): Promise<LoopEnd> {
  for (;;) {
    await whilePaused(input, state);
    await takeAsked(input, state);
    // An answer that came too late is graded, with that told beside it.
    if (state.lastWord && !state.paused && state.inbox.length === 0) {
      return timeUp(input, state) ?? state.lastWord;
    }
    if (workflowInfo().continueAsNewSuggested) return 'continue';
    state.lastWord = null;
    const limit = limitMet(input, state);
    if (limit) return limit;
    takeMessages(state);

    const spent = { ...state.spent };
    const workS = secondsLeft(input, state);
    const turn = await runStep(input, state, workS);
    if (typeof turn === 'string') return turn;
    if (turn.finishReason === 'refused') return 'refused';
    if (turn.malformed) return 'malformed_tool_call';

    if (turn.tools.length === 0) {
      // Not yet the end: somebody may hold the rollout, and have a word with the agent.
      state.lastWord = turn.finishReason === 'length' ? 'max_tokens' : 'done';
      continue;
    }
    const end = await makeToolCalls(input, state, {
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
async function runStep(
  input: RolloutInput,
  state: RolloutState,
  workS: number,
): Promise<StepOutput | StopReason> {
  const step = state.step + 1;
  const { agentRef, sandboxId } = worldOf(state);
  const { waitS, timeoutS } = modelLimitsOf(input);
  const endsAtMs = runEndsAtMs(input, state);
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
      leaseS: leaseOf(input),
      callsKey: callsKey(state, step),
      onOutcomeUnknown: input.onOutcomeUnknown,
      checkpoint: checkpointAt(input, step),
      secondsLeft: workS,
      toolTimeoutS: input.limits.toolTimeoutS ?? defaultToolTimeoutS,
      ...(endsAtMs === null ? {} : { runEndsAtMs: endsAtMs }),
    });
  } catch (error) {
    if (isCancellation(error)) throw error;
    const { failure } = troubleOf(error, 'loop');
    if (failure.type === 'RunTimeout') return 'run_timeout';
    if (failure.type !== 'ContextOverflow' && failure.type !== 'ModelRefused') throw error;
    state.agentFailure = failure;
    return failure.type === 'ModelRefused' ? 'refused' : 'context_overflow';
  }
  state.step = step;
  state.head = turn.head;
  state.pending =
    turn.tools.length > 0 ? [{ type: 'reply', step, modelKey: modelKey(state, step) }] : [];
  chargeTurn(state, turn);
  return turn;
}

function checkpointAt({ checkpoints }: RolloutInput, step: number): StepInput['checkpoint'] {
  if (typeof checkpoints !== 'number') return checkpoints;
  return step % checkpoints === 0 ? 'step' : 'never';
}

function chargeTurn(state: RolloutState, turn: StepOutput): void {
  state.modelCalls += 1;
  state.modelCallsReissued += turn.reissued ?? 0;
  const [promptTokens, completionTokens] = turn.tokens;
  state.spent.tokens += promptTokens + completionTokens;
  state.spent.costUsd += turn.costUsd ?? 0;
  charge(state, turn.durationS);
  if (turn.ids) noteIds(state, turn.ids);
  state.usage.promptTokens += promptTokens;
  state.usage.completionTokens += completionTokens;
  if (turn.costUsd !== null) state.usage.costUsd = (state.usage.costUsd ?? 0) + turn.costUsd;
}

/** What people wrote goes into the trajectory before the next model call. */
function takeMessages(state: RolloutState): void {
  for (const text of state.inbox)
    state.pending.push({ type: 'person', step: state.step + 1, text });
  state.inbox = [];
}
