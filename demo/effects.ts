import type { RolloutResult } from '../contracts/rollout';
import type { Rollouts } from '../client/api/connect';
import { UserError } from '../client/errors';

const effectsFile = '/workspace/ops/effects.log';

/** Effects that calls have left in a running sandbox: one line each, counted inside it. */
export async function effectsIn(rollouts: Rollouts, sandboxId: string): Promise<number> {
  const log = await rollouts.denv.readFile(sandboxId, effectsFile);
  return log.toString().split('\n').filter(Boolean).length;
}

/** Effects in what a rollout left: counted in a fork of the version that was judged. */
export async function effectsLeftBy(rollouts: Rollouts, result: RolloutResult): Promise<number> {
  const { denv, owner } = rollouts;
  const judged = result.verdicts.find(({ of }) => of === 'submission');
  if (!judged) throw new UserError(`${result.rolloutId} was not judged`);
  const labels = { owner, rolloutId: result.rolloutId };
  const { children } = await denv.forkVersion(
    judged.version,
    { labels, leaseS: 60 },
    { key: `${result.rolloutId}/effects` },
  );
  const [child] = children;
  if (!child || 'error' in child) {
    throw new UserError(
      `${judged.version} cannot be forked: ${child?.error.message ?? 'no child'}`,
    );
  }
  try {
    return await effectsIn(rollouts, child.sandbox.id);
  } finally {
    await denv.deleteSandbox(child.sandbox.id);
  }
}
