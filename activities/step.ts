import { ApplicationFailure } from '@temporalio/activity';
import { isFailureType } from '../contracts/failures';
import type { FailureType } from '../contracts/failures';
import { makeToolCall } from './calls';
import type { CallToolInput, CallToolOutput } from './calls';
import { toMs } from '../rollouts/documents';
import { toFailure } from './support/failures';
import type { FailureDetails } from './support/failures';
import { activity } from './support/heartbeat';
import { callModel } from './model/reply';
import type { CallModelInput, ModelTurn } from './model/reply';
import type { Parts } from './support/parts';

export interface StepInput extends CallModelInput, Pick<CallToolInput, 'onOutcomeUnknown'> {
  /** What the keys of the reply's tool calls begin with. */
  callsKey: string;
  /**
   * Which replies have a snapshot taken before their first call that reaches the sandbox. `mutating`: where something has changed
   * since the last version; else that one is the checkpoint.
   */
  checkpoint: 'step' | 'mutating' | 'never';
  /** Of the agent's working time, the model's answer not yet taken off. */
  secondsLeft: number;
  /** What a tool call may take of it. */
  toolTimeoutS: number;
}

export interface StepOutput extends ModelTurn {
  /** The reply's tool calls that were made, the first one first. */
  made?: CallToolOutput[];
  /** The calls that are left begin with a snapshot. */
  checkpoint?: true;
  /** How the next call failed, when asking for it again would give the same answer. */
  trouble?: StepTrouble;
}

export interface StepTrouble {
  type: FailureType;
  message: string;
  details: FailureDetails;
}

type MadeCalls = Pick<StepOutput, 'made' | 'checkpoint' | 'trouble'>;

export function stepActivities(parts: Parts) {
  return {
    /**
     * One step of the agent: `callModel`, then the calls of its reply in order, each under its own key. A worker that dies in it
     * costs nothing twice: the next one finds the recorded reply, and waits for the same calls. Calls are made until the agent's
     * time is up, one fails or the rollout is cancelled; what is left then is the workflow's to decide, and nothing that was
     * done is lost to it; so is a call of one of our own tools. A reply that is refused or malformed has none of its calls made.
     * @throws as `callModel`
     */
    runStep: activity(async (input: StepInput, signal: AbortSignal): Promise<StepOutput> => {
      const turn = await callModel(parts, input, signal);
      if (turn.finishReason === 'refused' || turn.malformed || turn.tools.length === 0) return turn;
      return { ...turn, ...(await makeCalls(parts, input, turn, signal)) };
    }),
  };
}

async function makeCalls(
  parts: Parts,
  input: StepInput,
  turn: ModelTurn,
  signal: AbortSignal,
): Promise<MadeCalls> {
  const { step, sandboxId, leaseS, onOutcomeUnknown } = input;
  const made: CallToolOutput[] = [];
  let trouble: StepTrouble | undefined;
  let snapshot = snapshotOf(input.checkpoint);
  const end = turn.ours?.[0] ?? turn.tools.length;
  // Every call is asked for with the very limit that the workflow would give it: the same key may ask for nothing else.
  let secondsLeft = toMs(input.secondsLeft - turn.durationS);
  while (made.length < end && secondsLeft > 0 && !signal.aborted) {
    const index = made.length;
    const call: CallToolInput = {
      key: `${input.callsKey}/${index}`,
      sandboxId,
      leaseS,
      step,
      modelKey: input.key,
      index,
      onOutcomeUnknown,
      timeoutS: Math.min(input.toolTimeoutS, secondsLeft),
      ...(snapshot ? { snapshot } : {}),
    };
    try {
      const done = await makeToolCall(parts, call, signal);
      made.push(done);
      if (done.version) snapshot = null;
      secondsLeft = toMs(secondsLeft - done.durationS);
    } catch (error) {
      // A worker that lets go, or a call that may be asked for again, is no trouble: it is asked for again by `callTool`.
      if (!signal.aborted) trouble = troubleOf(error);
      break;
    }
  }
  const left = made.length < turn.tools.length;
  return {
    made,
    ...(left && snapshot ? { checkpoint: true } : {}),
    ...(trouble ? { trouble } : {}),
  };
}

/** How the version before a step is asked for; null for none. */
function snapshotOf(checkpoint: StepInput['checkpoint']): 'before' | 'changed' | null {
  if (checkpoint === 'never') return null;
  return checkpoint === 'mutating' ? 'changed' : 'before';
}

function troubleOf(error: unknown): StepTrouble | undefined {
  const failure = toFailure(error);
  if (!(failure instanceof ApplicationFailure) || failure.nonRetryable !== true) return undefined;
  const { message, details } = failure;
  const type = isFailureType(failure.type) ? failure.type : 'Unexpected';
  // toFailure wrote the details.
  return { type, message, details: details?.[0] as FailureDetails };
}
