import { readEntries } from '../../../rollouts/trajectory/chain';
import type { RolloutResult } from '../../../contracts/rollout';
import { sandboxIdOf } from '../../../denv/ids';
import type { CrashBatch, CrashStack } from '../crash-stack';

/** HTTP requests that the endpoint of a batch has counted, beyond those that its results account for. */
export function repeated({ model }: CrashBatch, results: Record<string, RolloutResult>): number {
  const accounted = Object.values(results)
    .map(({ modelCalls, modelCallsReissued }) => modelCalls + modelCallsReissued)
    .reduce((sum, calls) => sum + calls, 0);
  return model.stats().requests - accounted;
}

/** What everybody should see of a rollout that nothing has happened to. */
export const unharmed = (rolloutId: string, effects: number, modelCalls: number) => ({
  outcome: 'scored',
  reward: 1,
  rewards: { effects },
  failure: null,
  stopReason: 'done',
  attempts: [{ attempt: 1 }],
  modelCalls,
  sandboxId: sandboxIdOf(`${rolloutId}/1/create`),
  lineage: { restored: [] },
});

export const eventsOf = async (stack: CrashStack, sandboxId: string): Promise<string[]> =>
  (await stack.record(sandboxId)).entries.map(({ event }) => event);

/** What the agent was shown, an observation a line. */
export async function told(stack: CrashStack, result: RolloutResult | undefined): Promise<string> {
  const entries = await readEntries(stack.rollouts.documents, result?.trajectory ?? '');
  return entries
    .flatMap((entry) => (entry.type === 'observation' ? entry.observation.content : []))
    .map((part) => (part.type === 'text' ? part.text : part.type))
    .join('\n');
}

/** Effects in a version, as a fork of it would find them. */
export async function effectsIn(stack: CrashStack, version: string): Promise<number> {
  const file = await stack.rollouts.denv.readVersionFile(version, '/workspace/effects');
  return file.toString().split('\n').filter(Boolean).length;
}
