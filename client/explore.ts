import { BatchRollouts } from '../contracts/batch';
import { RolloutInput } from '../contracts/rollout';
import type { Checkpoint, ExploreInput, ExploreResult, RolloutResult } from '../contracts/rollout';
import { PackedTask } from '../contracts/task';
import { identityOf } from '../tasks/identity';
import type { Rollouts } from './connect';
import { UsageError, UserError } from './errors';
import { declaredOf, handle, rolloutStatus, startOnce } from './rollouts';

/** Where the blob store has the input of a continuation. */
export const inputName = (rolloutId: string): string => `inputs/${rolloutId}`;

export interface ExploreRequest {
  rolloutId: string;
  step: number;
  count: number;
}

export interface StartedExploration {
  exploreId: string;
  rolloutIds: string[];
}

/**
 * Starts `count` continuations of a rollout from the checkpoint before `step`: each in a sandbox of its own, with what was
 * left of the budget and a seed of its own, each verified. Exploring the same step again adds more of them.
 * @throws UsageError when there is no such checkpoint, or it is a HUD task
 */
export async function startExploration(
  rollouts: Rollouts,
  request: ExploreRequest,
): Promise<StartedExploration> {
  const parent = await inputOf(rollouts, request.rolloutId);
  const packed = PackedTask.parse(
    JSON.parse((await rollouts.blobs.get(parent.taskRef)).toString()),
  );
  refuseHud(request.rolloutId, packed);
  const checkpoint = await checkpointAt(rollouts, request);
  const continuations = await claimContinuations(rollouts, {
    parent,
    taskDigest: packed.digest,
    checkpoint,
    count: request.count,
  });
  const first = continuations[0];
  if (!first) throw new UsageError('--count: give at least 1');
  const exploreId = `explore/${parent.rolloutId}/${request.step}/${first.index}`;
  await rollouts.ledger.declareRollouts(continuations.map(declaredOf));
  const input: ExploreInput = { exploreId, rollouts: continuations };
  await startOnce(rollouts, 'explore', exploreId, input);
  return { exploreId, rolloutIds: continuations.map(({ rolloutId }) => rolloutId) };
}

/** Waits for an exploration to end. */
export async function awaitExploration(
  rollouts: Rollouts,
  exploreId: string,
): Promise<{ explored: ExploreResult; results: RolloutResult[] }> {
  const explored = (await handle(rollouts, exploreId).result()) as ExploreResult; // what the explore workflow returns
  const results = await rollouts.ledger.results(explored.rollouts.map((r) => r.rolloutId));
  return { explored, results };
}

/** What a rollout was started with: its batch has it, or, for a continuation, its own entry in the blob store. */
export async function inputOf(rollouts: Rollouts, rolloutId: string): Promise<RolloutInput> {
  const own = await rollouts.blobs.find(inputName(rolloutId));
  if (own) return RolloutInput.parse(JSON.parse(own.toString()));
  const row = await rollouts.ledger.rollout(rolloutId);
  const batch = row && (await rollouts.ledger.batch(row.batchId));
  if (!batch) throw new UserError(`there is no rollout ${rolloutId}; see: rollouts list`);
  const data = await rollouts.blobs.get(batch.rolloutsRef);
  const found = BatchRollouts.parse(JSON.parse(data.toString())).find(
    (input) => input.rolloutId === rolloutId,
  );
  if (!found) throw new UserError(`batch ${batch.batchId} has no input of ${rolloutId}`);
  return found;
}

function refuseHud(rolloutId: string, { task }: PackedTask): void {
  if (!task.hud) return;
  throw new UsageError(
    `${rolloutId} is a HUD task, which lives in its environment's memory: no version holds it, so there is nothing to go on from. Run it again with --group for other ways it may go`,
  );
}

async function checkpointAt(rollouts: Rollouts, request: ExploreRequest): Promise<Checkpoint> {
  const { rolloutId, step } = request;
  const result = (await rollouts.ledger.rollout(rolloutId))?.result;
  const checkpoints =
    result?.checkpoints ?? (await rolloutStatus(rollouts, rolloutId))?.checkpoints ?? [];
  const found = checkpoints.find((checkpoint) => checkpoint.step === step);
  if (found) return found;
  const steps = checkpoints.map((checkpoint) => checkpoint.step);
  throw new UsageError(
    steps.length === 0
      ? `${rolloutId} has no checkpoints to go on from`
      : `--at ${step}: ${rolloutId} has no checkpoint before that step; it has them before ${steps.join(', ')}`,
  );
}

/** Numbers are claimed in the blob store, so two explorations at once never name the same continuation. */
async function claimContinuations(
  rollouts: Rollouts,
  asked: { parent: RolloutInput; taskDigest: string; checkpoint: Checkpoint; count: number },
): Promise<RolloutInput[]> {
  const { parent, taskDigest, checkpoint, count } = asked;
  const claimed: RolloutInput[] = [];
  for (let k = 1; claimed.length < count; k++) {
    const input = continuationOf(parent, taskDigest, checkpoint, k);
    const { won } = await rollouts.blobs.putIfAbsent(
      inputName(input.rolloutId),
      Buffer.from(JSON.stringify(input)),
    );
    if (won) claimed.push(input);
  }
  return claimed;
}

function continuationOf(
  parent: RolloutInput,
  taskDigest: string,
  checkpoint: Checkpoint,
  k: number,
): RolloutInput {
  const { step, version, trajectory, spent } = checkpoint;
  const from = { parentRolloutId: parent.rolloutId, step, version, trajectory, spent };
  const settings = { ...parent.model.settings, seed: (parent.model.settings.seed ?? 0) + k };
  return {
    ...parent,
    rolloutId: `${parent.rolloutId}/e${step}.${k}`,
    index: k,
    identity: identityOf({
      taskDigest,
      agent: parent.agent,
      model: parent.model.name,
      settings,
      limits: parent.limits,
      index: k,
      from: { parentRolloutId: parent.rolloutId, step, trajectory },
    }),
    model: { ...parent.model, settings },
    from,
  };
}
