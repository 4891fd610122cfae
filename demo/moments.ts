import { setTimeout as sleep } from 'node:timers/promises';
import { DenvError } from '../denv/errors';
import { sandboxIdOf } from '../denv/ids';
import type { ScriptedEndpoint } from '../models/scripted/server';
import { UserError } from '../client/errors';
import { effectsIn } from './effects';
import type { DemoStack } from './stack';

const pollMs = 50;
const patienceMs = 90_000;

/**
 * Resolves in the middle of a rollout's first tool call: its operation runs, and its effect was begun, as the log inside the
 * sandbox says.
 * @throws UserError when that moment does not come
 */
export async function duringToolCall(
  { rollouts, stopping }: DemoStack,
  rolloutId: string,
): Promise<void> {
  const sandboxId = sandboxIdOf(`${rolloutId}/1/create`);
  await until(stopping, `the first tool call of ${rolloutId}`, async () => {
    const operation = await rollouts.denv.operation(`${rolloutId}/1/step/1/call/0`);
    return operation.state === 'running' && (await effectsIn(rollouts, sandboxId)) > 0;
  });
}

/**
 * Resolves while the endpoint holds back its second answer to a prompt with `when` in it.
 * @throws UserError when that moment does not come
 */
export async function duringModelCall(
  { stopping }: DemoStack,
  model: ScriptedEndpoint,
  when: string,
): Promise<void> {
  await until(stopping, `the slow model call of ${JSON.stringify(when)}`, () => {
    const counts = model.stats().byEntry[when];
    return Promise.resolve(counts !== undefined && counts.answered === 1 && counts.open === 1);
  });
}

/** What denv refuses to answer, or cannot yet, is a moment that has not come. */
async function until(
  stopping: AbortSignal,
  what: string,
  come: () => Promise<boolean>,
): Promise<void> {
  const end = Date.now() + patienceMs;
  while (Date.now() < end) {
    stopping.throwIfAborted();
    try {
      if (await come()) return;
    } catch (error) {
      if (!(error instanceof DenvError)) throw error;
    }
    await sleep(pollMs);
  }
  throw new UserError(`${what} did not come within ${patienceMs / 1000} s`);
}
