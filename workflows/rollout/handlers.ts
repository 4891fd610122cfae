import { setHandler } from '@temporalio/workflow';
import { askForCheckpoint } from './checkpoint-requests';
import {
  cancelSignal,
  checkpointUpdate,
  forkUpdate,
  messageUpdate,
  pauseUpdate,
  resumeUpdate,
  statusQuery,
} from '../messages';
import type { RolloutInput } from '../../contracts/rollout';
import { statusOf } from './state';
import type { RolloutState } from './state';

const maxMessageLength = 16_000;
const maxWaitingMessages = 50;

/**
 * Sets the handlers of a rollout, before its first await: a message may come with the very first task. `leave` ends those that
 * wait, so that the next run can begin.
 */
export function handleMessages(
  input: RolloutInput,
  state: RolloutState,
  cancel: () => void,
): { leave: () => void } {
  let leaving = false;
  const canAnswer = (): boolean => !leaving && atWork(state);
  setHandler(statusQuery, () => statusOf(state));
  setHandler(cancelSignal, cancel);
  setHandler(
    pauseUpdate,
    () => {
      state.paused = true;
      return statusOf(state);
    },
    { validator: () => assertAtWork(state) },
  );
  setHandler(
    resumeUpdate,
    () => {
      state.paused = false;
      return statusOf(state);
    },
    { validator: () => assertAtWork(state) },
  );
  setHandler(
    messageUpdate,
    ({ text }) => {
      state.inbox.push(text);
      return state.inbox.length;
    },
    {
      validator: ({ text }) => {
        assertAtWork(state);
        if (typeof text !== 'string' || text.trim() === '') throw new Error('a message needs text');
        if (text.length > maxMessageLength) {
          throw new Error(`a message has at most ${maxMessageLength} characters`);
        }
        if (state.inbox.length >= maxWaitingMessages) {
          throw new Error(`${maxWaitingMessages} messages wait already`);
        }
      },
    },
  );
  setHandler(checkpointUpdate, () => askForCheckpoint(state, canAnswer), {
    validator: () => {
      assertHasSteps(input, state);
      if (state.world?.task.unforkable) {
        throw new Error(
          'the task lives in the memory of its environment, so no version of its sandbox holds it; a fork by replay needs none',
        );
      }
    },
  });
  setHandler(forkUpdate, () => askForCheckpoint(state, canAnswer), {
    validator: () => assertHasSteps(input, state),
  });
  return { leave: () => (leaving = true) };
}

/** Checkpoints are taken between steps, and only an agent that asks a model has any. */
function assertHasSteps({ agent }: RolloutInput, state: RolloutState): void {
  assertAtWork(state);
  if (agent !== 'model') throw new Error(`an agent of kind ${agent} has no steps`);
}

const atWork = ({ stage }: RolloutState): boolean =>
  stage === 'create' || stage === 'ready' || stage === 'setup' || stage === 'loop';

/** Only an agent that still works can be held or spoken to. */
function assertAtWork(state: RolloutState): void {
  const { stage } = state;
  if (atWork(state)) return;
  throw new Error(`the agent's work is over: the rollout is at ${stage}`);
}
