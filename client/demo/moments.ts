import { setTimeout as sleep } from 'node:timers/promises';
import type { ScriptedEndpoint } from '../../models/scripted';
import type { Rollouts } from '../connect';
import { UserError } from '../errors';

/** Where effects are written, in every sandbox of the kill taskset. */
export const effectsFile = '/workspace/ops/effects.log';

const pollMs = 50;
const patienceMs = 90_000;

/**
 * Resolves in the middle of a rollout's first tool call: its operation runs, and its effect was begun, as the log inside the
 * sandbox says. @throws UserError when that moment does not come
 */
export async function duringToolCall(rollouts: Rollouts, rolloutId: string): Promise<void> {
  const key = `${rolloutId}/1/step/1/call/0`;
  await until(`the first tool call of ${rolloutId}`, async () => {
    const operation = await rollouts.denv.operation(key);
    if (operation.state !== 'running') return false;
    return (await effectsIn(rollouts, sandboxOf(rolloutId))) > 0;
  });
}

/** Resolves while the endpoint holds back the second answer to prompts with `when`. */
export async function duringModelCall(model: ScriptedEndpoint, when: string): Promise<void> {
  await until(`the slow model call of ${JSON.stringify(when)}`, () => {
    const counts = model.stats().byEntry[when];
    return Promise.resolve(counts !== undefined && counts.answered === 1 && counts.open === 1);
  });
}
