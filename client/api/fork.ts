import type { Checkpoint, Continuation, RolloutInput } from '../../contracts/rollout';
import type { ContinuationWay } from '../../contracts/task';
import {
  depthOf,
  maxDepth,
  prepareStart,
  toContinuationInput,
} from '../../rollouts/continuation/start';
import { inputName } from '../../rollouts/inputs';
import type { ChosenWay } from '../../rollouts/ways';
import { forkId } from '../../workflows/continuation-ids';
import { withChanges } from './changes';
import type { ModelChanges } from './changes';
import type { Rollouts } from './connect';
import { UsageError } from '../errors';
import { chooseWay, readPoint } from './fork-points';
import { readStanding } from './rollout-status';
import type { Standing } from './rollout-status';
import { startRollout, takeCheckpoint } from './rollouts';

export interface ForkRequest {
  rolloutId: string;
  /** The step to fork, or the last checkpoint: of a running rollout, one that is taken now. */
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
 * Forks one step of a rollout `count` times, and starts the forks: each has the sandbox and the transcript as they were before that
 * step, what was left of the budget, and a seed of its own. No model is asked again for the steps before. Asking again adds more.
 * @throws UsageError, RolloutError when the step cannot be forked that way
 */
export async function startForks(rollouts: Rollouts, request: ForkRequest): Promise<StartedForks> {
  const { rolloutId, count, changes } = request;
  const { standing, point } = await readPlace(rollouts, request);
  const chosen = await chooseWay(rollouts, standing, point, request.way);
  refuseTooDeep(standing.input);
  const from = await readStart(rollouts, { standing, point, chosen, request });
  const like = await withChanges(standing.input, changes, request.priceFile);
  const taskDigest = standing.packed.digest;
  // A seed that was asked for is that of the first one.
  const isSeeded = changes.settings?.seed !== undefined;
  const claimed = await claim(rollouts, count, (k, nth) =>
    toContinuationInput(like, {
      rolloutId: forkId(rolloutId, point.step, k),
      index: k,
      seedShift: isSeeded ? nth : k,
      taskDigest,
      from,
    }),
  );
  for (const input of claimed) await startRollout(rollouts, input);
  return { rolloutIds: claimed.map((input) => input.rolloutId), chosen };
}

/** @throws UsageError when no fork of the rollout may be made */
export function refuseTooDeep({ rolloutId, from }: RolloutInput): void {
  if (depthOf(from) < maxDepth) return;
  throw new UsageError(
    `${rolloutId} is a fork ${maxDepth} deep already, and that is as deep as it goes`,
  );
}

/** The rollout as it stands, and the point before the step that is asked for. */
async function readPlace(
  rollouts: Rollouts,
  { rolloutId, at }: ForkRequest,
): Promise<{ standing: Standing; point: Checkpoint }> {
  const standing = await readStanding(rollouts, rolloutId);
  const { state, steps, checkpoints } = standing;
  if (state === 'running' && (at === 'last' || at === steps + 1)) {
    // The rollout's own answer is the point: what is read of it meanwhile lacks a step's calls, or is steps ahead.
    const point = await takeCheckpoint(rollouts, rolloutId);
    if (at === 'last' || at === point.step) return { standing, point };
    const now = await readStanding(rollouts, rolloutId);
    return { standing: now, point: await readPoint(rollouts, now, at) };
  }
  const step = at === 'last' ? (checkpoints.at(-1)?.step ?? steps) : at;
  if (step < 1) throw new UsageError(`${rolloutId} has made no step to fork`);
  return { standing, point: await readPoint(rollouts, standing, step) };
}

function readStart(
  rollouts: Rollouts,
  asked: { standing: Standing; point: Checkpoint; chosen: ChosenWay; request: ForkRequest },
): Promise<Continuation> {
  const { standing, point, chosen, request } = asked;
  return prepareStart(
    {
      documents: rollouts.documents,
      findTranscript: (rolloutId) => readStanding(rollouts, rolloutId),
    },
    {
      parentRolloutId: request.rolloutId,
      from: standing.input.from,
      point,
      way: chosen.way,
      ...(request.edits ? { edits: request.edits } : {}),
      ...(request.message === undefined ? {} : { message: request.message }),
    },
  );
}

/** Claims numbers in the blob store, so that two who fork at once never name the same continuation. */
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
