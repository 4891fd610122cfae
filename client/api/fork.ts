import type { Continuation, RolloutInput } from '../../contracts/rollout';
import type { ContinuationWay } from '../../contracts/task';
import { identityOf } from '../../rollouts/identity';
import type { ChosenWay } from '../../rollouts/ways';
import { withChanges } from './changes';
import type { ModelChanges } from './changes';
import type { Rollouts } from './connect';
import { editObservation } from '../../rollouts/trajectory/edits';
import { UsageError } from '../errors';
import { inputName } from '../../rollouts/inputs';
import { recordedBefore, replayBase } from './replay-source';
import { startRollout, takeCheckpoint } from './rollouts';
import { forkPointAt } from './fork-points';
import type { ForkPoint } from './fork-points';
import { deepest, depthOf, readStanding } from './rollout-status';
import type { Standing } from './rollout-status';
import { addLink } from '../../rollouts/trajectory/chain';

export interface ForkRequest {
  rolloutId: string;
  /** Go on from before this step, or from the last checkpoint: of a rollout that runs, one that is taken now. */
  at: number | 'last';
  count: number;
  way?: ContinuationWay;
  changes: ModelChanges;
  /** Said to the agent before that step. */
  message?: string;
  edits?: { call: string; text: string }[];
  priceFile: string;
}

export interface StartedForks {
  rolloutIds: string[];
  chosen: ChosenWay;
}

/**
 * Starts `count` rollouts that go on from one step of another: the same world and the same transcript, of which nothing is asked
 * of a model again, with what was left of the budget and a seed of their own. Asking again adds more of them.
 * @throws UsageError when it cannot be gone on from there
 */
export async function startForks(rollouts: Rollouts, request: ForkRequest): Promise<StartedForks> {
  const { standing, step } = await placeOf(rollouts, request);
  const point = await forkPointAt(rollouts, standing, step, request.way);
  const depth = depthOf(standing.input) + 1;
  if (depth > deepest) {
    throw new UsageError(
      `${request.rolloutId} is a fork ${deepest} deep already, and that is as deep as it goes`,
    );
  }
  const from = await continuationFrom(rollouts, { standing, point, request, depth });
  const parent = await withChanges(standing.input, request.changes, request.priceFile);
  const taskDigest = standing.packed.digest;
  const seeded = request.changes.settings?.seed !== undefined;
  const claimed = await claim(rollouts, request.count, (k, nth) =>
    continuationOf({ parent, taskDigest, from, k, seedStep: seeded ? nth : k }),
  );
  for (const input of claimed) await startRollout(rollouts, input);
  return { rolloutIds: claimed.map(({ rolloutId }) => rolloutId), chosen: point.chosen };
}

async function placeOf(
  rollouts: Rollouts,
  { rolloutId, at }: ForkRequest,
): Promise<{ standing: Standing; step: number }> {
  const standing = await readStanding(rollouts, rolloutId);
  if (at !== 'last') return { standing, step: at };
  if (standing.state === 'running') {
    const { step } = await takeCheckpoint(rollouts, rolloutId);
    return { standing: await readStanding(rollouts, rolloutId), step };
  }
  const step = standing.checkpoints.at(-1)?.step ?? standing.steps;
  if (step < 1) throw new UsageError(`${rolloutId} has made no step to go on from`);
  return { standing, step };
}

async function continuationFrom(
  rollouts: Rollouts,
  asked: { standing: Standing; point: ForkPoint; request: ForkRequest; depth: number },
): Promise<Continuation> {
  const { standing, point, request, depth } = asked;
  const { blobs } = rollouts;
  let { trajectory } = point;
  for (const { call, text } of request.edits ?? []) {
    trajectory = await editObservation(blobs, trajectory, call, text);
  }
  const { step } = point;
  const { message: text } = request;
  if (text !== undefined) {
    trajectory = await addLink(blobs, trajectory, [{ type: 'person', step, text }]);
  }
  const { way } = point.chosen;
  return {
    parentRolloutId: request.rolloutId,
    step,
    version:
      way === 'replay' ? (await replayBase(rollouts, standing.input)).version : point.version,
    trajectory,
    way,
    ...(way === 'replay' ? { replay: await recordedBefore(rollouts, standing, step) } : {}),
    depth,
    spent: point.spent,
  };
}

/** Numbers are claimed in the blob store, so two who fork at once never name the same continuation. */
async function claim(
  { blobs }: Rollouts,
  count: number,
  inputFor: (k: number, nth: number) => RolloutInput,
): Promise<RolloutInput[]> {
  const claimed: RolloutInput[] = [];
  for (let k = 1; claimed.length < count; k++) {
    const input = inputFor(k, claimed.length);
    const data = Buffer.from(JSON.stringify(input));
    if ((await blobs.putIfAbsent(inputName(input.rolloutId), data)).won) claimed.push(input);
  }
  return claimed;
}

function continuationOf(asked: {
  parent: RolloutInput;
  taskDigest: string;
  from: Continuation;
  k: number;
  seedStep: number;
}): RolloutInput {
  const { parent, taskDigest, from, k, seedStep } = asked;
  const { agent, limits, model } = parent;
  const settings = { ...model.settings, seed: (model.settings.seed ?? 0) + seedStep };
  return {
    ...parent,
    rolloutId: `${from.parentRolloutId}/e${from.step}.${k}`,
    index: k,
    identity: identityOf({
      taskDigest,
      agent,
      model: model.name,
      settings,
      limits,
      index: k,
      from: {
        parentRolloutId: from.parentRolloutId,
        step: from.step,
        trajectory: from.trajectory,
      },
    }),
    model: { ...model, settings },
    from,
  };
}
