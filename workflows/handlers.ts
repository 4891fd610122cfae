import { setHandler } from '@temporalio/workflow';
import { cancelSignal, messageUpdate, pauseUpdate, resumeUpdate, statusQuery } from './messages';
import { statusOf } from './state';
import type { RolloutState } from './state';

const maxMessageLength = 16_000;
const maxWaitingMessages = 50;

/** Sets the handlers of a rollout, before its first await: a message may come with the very first task. */
export function handleMessages(state: RolloutState, cancel: () => void): void {
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
}

/** Only an agent that still works can be held or spoken to. */
function assertAtWork({ stage }: RolloutState): void {
  if (stage === 'create' || stage === 'ready' || stage === 'setup' || stage === 'loop') return;
  throw new Error(`the agent's work is over: the rollout is at ${stage}`);
}
