import { setHandler } from '@temporalio/workflow';
import {
  cancelSignal,
  checkpointUpdate,
  forkUpdate,
  messageUpdate,
  pauseUpdate,
  resumeUpdate,
  statusQuery,
} from '../messages';
import { requestCheckpoint } from './checkpoint-requests';
import type { Rollout } from './live-rollout';

const maxMessageLength = 16_000;
const maxWaitingMessages = 50;

/**
 * Sets the handlers of a rollout, before its first await: a message may come with the very first task. `leave` ends those that
 * wait, so that the next run can begin.
 */
export function handleMessages(rollout: Rollout, cancel: () => void): { leave: () => void } {
  const { state } = rollout;
  let leaving = false;
  const canAnswer = (): boolean => !leaving && rollout.isAtWork;
  setHandler(statusQuery, () => rollout.status());
  setHandler(cancelSignal, cancel);
  setHandler(
    pauseUpdate,
    () => {
      state.paused = true;
      return rollout.status();
    },
    { validator: () => assertAtWork(rollout) },
  );
  setHandler(
    resumeUpdate,
    () => {
      state.paused = false;
      return rollout.status();
    },
    { validator: () => assertAtWork(rollout) },
  );
  setHandler(
    messageUpdate,
    ({ text }) => {
      state.inbox.push(text);
      return state.inbox.length;
    },
    {
      validator: ({ text }) => {
        assertAtWork(rollout);
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
  setHandler(checkpointUpdate, () => requestCheckpoint(rollout, canAnswer), {
    validator: () => {
      assertHasSteps(rollout);
      if (state.world?.task.unforkable) {
        throw new Error(
          'the task lives in the memory of its environment, so no version of its sandbox holds it; a fork by replay needs none',
        );
      }
    },
  });
  setHandler(forkUpdate, () => requestCheckpoint(rollout, canAnswer), {
    validator: () => assertHasSteps(rollout),
  });
  return { leave: () => (leaving = true) };
}

/** Checkpoints are taken between steps, and only an agent that asks a model has any. */
function assertHasSteps(rollout: Rollout): void {
  const { agent } = rollout.input;
  assertAtWork(rollout);
  if (agent !== 'model') throw new Error(`an agent of kind ${agent} has no steps`);
}

/** Only an agent that still works can be held or spoken to. */
function assertAtWork({ isAtWork, state }: Rollout): void {
  if (isAtWork) return;
  throw new Error(`the agent's work is over: the rollout is at ${state.stage}`);
}
