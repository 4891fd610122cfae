import { RolloutInput } from '../../contracts/rollout';
import type { Checkpoint, Continuation } from '../../contracts/rollout';
import type { ContinuationWay } from '../../contracts/task';
import type { TrajectoryEntry } from '../../contracts/trajectory';
import type { Documents } from '../documents';
import { identityOf } from '../identity';
import { inputName } from '../inputs';
import { appendEntries, entriesBefore, readEntries } from '../trajectory/chain';
import type { Progress } from '../trajectory/checkpoints';
import { editObservation, withRealObservations } from '../trajectory/edits';

/** Where the facts about rollouts are read. */
export interface StartSources {
  documents: Documents;
  /** Finds the transcript of a rollout that runs or has ended; null where nobody knows the rollout. */
  findTranscript(rolloutId: string): Promise<Pick<Progress, 'trajectory'> | null>;
}

export interface StartRequest {
  parentRolloutId: string;
  /** Where the parent itself was forked from; undefined where it began by itself. */
  from: Continuation | undefined;
  /** The point before the step that is forked, as `findPoint` finds it. */
  point: Checkpoint;
  way: ContinuationWay;
  edits?: { call: string; text: string }[];
  /** Said to the agent before that step. */
  message?: string;
}

/** A rollout can be a fork of a fork, at most this deep. */
export const maxDepth = 100;

/** Counts the forks between a rollout and its first ancestor. Inputs of old forks do not say it. */
export const depthOf = (from: Continuation | undefined): number => from?.depth ?? (from ? 1 : 0);

/**
 * Decides what a fork of a step starts from, whoever forks it: the version of the sandbox, the transcript that its agent is shown, and
 * what was spent. By `replay`, the calls of the transcript are made again in the version that the lineage last started from before
 * the step, and are compared with the observations that were really made, not with edited ones.
 * @throws RolloutError invalid_request when a call to edit is not there
 */
export async function prepareStart(
  sources: StartSources,
  request: StartRequest,
): Promise<Continuation> {
  const { parentRolloutId, from, point, way, edits = [], message } = request;
  const { documents } = sources;
  const { step, spent } = point;
  let { trajectory } = point;
  for (const { call, text } of edits) {
    trajectory = await editObservation(documents, trajectory, call, text);
  }
  if (message !== undefined) {
    trajectory = await appendEntries(documents, trajectory, [
      { type: 'person', step, text: message },
    ]);
  }
  const common = { parentRolloutId, step, trajectory, way, depth: depthOf(from) + 1, spent };
  if (way === 'snapshot') return { ...common, version: point.version };
  return {
    ...common,
    version: await findReplayVersion(documents, from, step),
    replay: await writeReplaySource(sources, from, point.trajectory),
  };
}

/**
 * Makes the input of a continuation: its parent's, but for where it starts, its number and its seed.
 * @param like  the parent's input, or one with another model
 */
export function toContinuationInput(
  like: RolloutInput,
  continuation: {
    rolloutId: string;
    index: number;
    seedShift: number;
    taskDigest: string;
    from: Continuation;
  },
): RolloutInput {
  const { rolloutId, index, seedShift, taskDigest, from } = continuation;
  const { agent, limits, model } = like;
  const settings = { ...model.settings, seed: (model.settings.seed ?? 0) + seedShift };
  const { parentRolloutId, step, trajectory } = from;
  return {
    ...like,
    rolloutId,
    index,
    identity: identityOf({
      taskDigest,
      agent,
      model: model.name,
      settings,
      limits,
      index,
      from: { parentRolloutId, step, trajectory },
    }),
    model: { ...model, settings },
    from,
  };
}

/** Finds the first step whose calls a replay makes, by the version that it starts in: empty where the task's start is made anew. */
export async function findFirstReplayedStep(
  documents: Pick<Documents, 'find'>,
  parentRolloutId: string,
  version: string,
): Promise<number> {
  if (version === '') return 0;
  const parent = await findFrom(documents, parentRolloutId);
  for await (const from of walkLineage(documents, parent)) {
    if (from.way !== 'replay' && from.version === version) return from.step;
  }
  return 0;
}

/** Finds the version that the lineage of a rollout last started from before a step; empty where that is the task's own start. */
async function findReplayVersion(
  documents: Pick<Documents, 'find'>,
  parent: Continuation | undefined,
  step: number,
): Promise<string> {
  let shared = step;
  for await (const from of walkLineage(documents, parent)) {
    if (from.way !== 'replay' && from.step <= shared) return from.version;
    shared = Math.min(shared, from.step);
  }
  return '';
}

/** Where a rollout was forked from, then where that parent was, and so on. */
async function* walkLineage(
  documents: Pick<Documents, 'find'>,
  from: Continuation | undefined,
): AsyncGenerator<Continuation> {
  for (let at = from; at !== undefined; at = await findFrom(documents, at.parentRolloutId))
    yield at;
}

const findFrom = async (
  documents: Pick<Documents, 'find'>,
  rolloutId: string,
): Promise<Continuation | undefined> =>
  (await documents.find(RolloutInput, inputName(rolloutId)))?.from;

/** Writes what a replay compares with. Where nothing before was edited, that is the transcript itself. @returns its head */
async function writeReplaySource(
  sources: StartSources,
  from: Continuation | undefined,
  head: string,
): Promise<string> {
  const shown = await readEntries(sources.documents, head);
  const real = await findRealEntries(sources, from, shown);
  return real === shown ? head : appendEntries(sources.documents, '', real);
}

/**
 * Finds what the sandboxes really answered, for a transcript as its rollout was shown it. A fork by replay has it written down since
 * it was made; for another one the parent is asked, whose transcript may have lost steps since: those stay as they were shown.
 */
async function findRealEntries(
  sources: StartSources,
  from: Continuation | undefined,
  shown: TrajectoryEntry[],
): Promise<TrajectoryEntry[]> {
  if (!from) return shown;
  const { documents } = sources;
  if (from.replay !== undefined) {
    return withRealObservations(shown, await readEntries(documents, from.replay));
  }
  const parent = await sources.findTranscript(from.parentRolloutId);
  if (!parent) return shown;
  const inherited = entriesBefore(await readEntries(documents, parent.trajectory), from.step);
  const grandparent = await findFrom(documents, from.parentRolloutId);
  return withRealObservations(shown, await findRealEntries(sources, grandparent, inherited));
}
