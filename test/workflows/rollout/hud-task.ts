import type { CallRequest } from '../../../contracts/denv';
import type { Task } from '../../../contracts/task';
import { FakeDenv } from '../../fakes/fake-denv';
import type { FakeHandlers } from '../../fakes/fake-denv';

/** A rollout of a HUD task alone, with the policies that such tasks have by default. */
export const hudTask = (hud: Partial<Task['hud']> = {}, task: Partial<Task> = {}) => ({
  checkpoints: 'never' as const,
  onOutcomeUnknown: 'report' as const,
  task: {
    prompt: undefined,
    verifier: undefined,
    environment: { image: 'host', controller: { kind: 'hud' as const } },
    hud: { id: 'add', args: { a: 2 }, ...hud },
    ...task,
  },
});

/** An agent that answers at once. */
export const done = [{ text: '4' }];

/** Answers one method by a handler. */
export function answering(method: CallRequest['method'], answer: FakeHandlers['call']): FakeDenv {
  const denv = new FakeDenv();
  denv.handlers.call = (request, context) =>
    request.method === method ? answer(request, context) : undefined;
  return denv;
}

/** Keys of the calls that have this in them. */
export const callsOf = (denv: FakeDenv, what: string): string[] =>
  denv.effectsOf('call').filter((key) => key.includes(what));
