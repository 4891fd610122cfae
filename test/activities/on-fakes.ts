import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { createActivities } from '../../activities';
import { createDocuments } from '../../rollouts/documents';
import { activity } from '../../activities/support/heartbeat';
import { callModel } from '../../activities/model/reply';
import type { CallModelInput } from '../../activities/model/reply';
import type { RolloutResult } from '../../contracts/rollout';
import type { PackedTask, Task } from '../../contracts/task';
import type { Ledger } from '../../stores/ledger';
import { FakeDenv } from '../fakes/fake-denv';
import { FakeModel } from '../fakes/fake-model';
import { MemoryBlobs } from '../fakes/memory-blobs';

/** The activities on fakes, each run as Temporal would run it. */
export function activitiesOnFakes(say: ConstructorParameters<typeof FakeModel>[0] = []) {
  const denv = new FakeDenv();
  const blobs = new MemoryBlobs();
  const model = new FakeModel(say);
  const results = new Map<string, RolloutResult>();
  const ledger: Ledger = {
    declareBatch: () => Promise.resolve(),
    declareRollouts: () => Promise.resolve(),
    batch: () => Promise.resolve(null),
    batches: () => Promise.resolve([]),
    recordResult: (result) => {
      const kept = results.get(result.rolloutId) ?? result;
      results.set(result.rolloutId, kept);
      return Promise.resolve(kept);
    },
    rollout: () => Promise.resolve(null),
    rollouts: () => Promise.resolve([]),
    results: (ids) => Promise.resolve(ids.flatMap((id) => results.get(id) ?? [])),
    recordRegrade: (regrade) => Promise.resolve({ ...regrade, current: false }),
    regrades: () => Promise.resolve([]),
    ends: () => Promise.resolve([]),
    close: () => Promise.resolve(),
  };
  const make = () => {
    const dependencies = { denv: denv.client, models: model, blobs, ledger, owner: 'own/ns' };
    const parts = { ...dependencies, documents: createDocuments(blobs) };
    return {
      ...createActivities(dependencies),
      /** The model call of a step, alone. */
      callModel: activity((input: CallModelInput, signal: AbortSignal) =>
        callModel(parts, input, signal),
      ),
    };
  };

  return {
    denv,
    blobs,
    model,
    results,
    /** Another worker's activities: they share nothing but the stores. */
    otherWorker: make,
    activities: make(),
    async put(value: unknown): Promise<string> {
      return (await blobs.put(Buffer.from(JSON.stringify(value)))).ref;
    },
    packed: (task: Partial<Task> = {}, more: Partial<PackedTask> = {}): PackedTask => ({
      id: 't',
      taskset: 's',
      digest: 'd',
      task: {
        id: 't',
        prompt: 'Mend it.',
        environment: { image: 'host' },
        verifier: { image: 'host', command: ['sh', '/v.sh'] },
        ...task,
      },
      environmentFiles: [],
      verifierFiles: [],
      ...more,
    }),
  };
}

export type ActivitiesOnFakes = ReturnType<typeof activitiesOnFakes>;

const quiet = { logger: new DefaultLogger('ERROR') };

/** Where one activity runs; `attempt` is Temporal's count of tries at it. */
export const environmentOf = (
  attempt = 1,
  { heartbeatTimeoutMs }: { heartbeatTimeoutMs?: number } = {},
): MockActivityEnvironment =>
  new MockActivityEnvironment(
    { attempt, scheduledTimestampMs: Date.now(), heartbeatTimeoutMs },
    quiet,
  );

/** Runs one activity in an environment of its own. */
export function run<I, O>(effect: (input: I) => Promise<O>, input: I, attempt = 1): Promise<O> {
  return environmentOf(attempt).run<[I], O, (input: I) => Promise<O>>(effect, input);
}
