import { Context } from '@temporalio/activity';
import { WorkflowNotFoundError } from '@temporalio/client';
import { RolloutInput } from '../contracts/rollout';
import type {
  Checkpoint,
  Continuation,
  ExploreNode,
  RolloutResult,
  RolloutStatus,
} from '../contracts/rollout';
import { PackedTask } from '../contracts/task';
import type { TrajectoryEntry } from '../contracts/trajectory';
import { DenvError } from '../denv/errors';
import { declaredOf } from '../stores/ledger';
import { identityOf } from '../rollouts/identity';
import { continuationWayOf } from '../rollouts/continuation/way';
import type { Documents } from '../rollouts/documents';
import { inputName } from '../rollouts/inputs';
import { activity } from './support/heartbeat';
import type { Parts } from './support/parts';
import { append, load } from './trajectory';
import { checkpointsIn } from '../rollouts/trajectory/checkpoints';

export interface DeclareInput {
  /** What every continuation is like, but for where it starts, its seed and its number. */
  root: RolloutInput;
  forks: ContinuationFork[];
}

export interface ContinuationFork {
  rolloutId: string;
  index: number;
  /** Added to the root's. */
  seed: number;
  parentRolloutId: string;
  step: number;
  depth: number;
}

/** What has become of a continuation. */
export interface NodeFacts extends Pick<
  ExploreNode,
  'rolloutId' | 'state' | 'reward' | 'checkpoints'
> {
  modelCalls: number;
  tokens: number;
  costUsd: number;
}

/** Of a rollout's checkpoints, the last so many can be forked: what goes through a history is short. */
const toldCheckpoints = 400;

export function continuationActivities(parts: Parts) {
  const { blobs, documents, ledger } = parts;

  return {
    /**
     * Makes the inputs of continuations, keeps each under its name and declares it to the ledger. Idempotent: what was kept first
     * under a rollout's id stays its input. All or none: nothing is declared when one of them has nothing to start from.
     * @throws InvalidRequest, CapabilityMissing (final)
     */
    declareContinuations: activity(async (input: DeclareInput): Promise<RolloutInput[]> => {
      const packed = await documents.get(PackedTask, input.root.taskRef);
      const way = continuationWayOf(packed.task);
      const made: RolloutInput[] = [];
      for (const fork of input.forks) {
        const known = await documents.find(RolloutInput, inputName(fork.rolloutId));
        made.push(known ?? (await continuationOf(parts, input.root, { fork, packed, way })));
      }
      const kept: RolloutInput[] = [];
      for (const one of made) {
        const data = Buffer.from(JSON.stringify(one));
        const { data: first } = await blobs.putIfAbsent(inputName(one.rolloutId), data);
        kept.push(RolloutInput.parse(JSON.parse(first.toString('utf8'))));
      }
      await ledger.declareRollouts(kept.map(declaredOf));
      return kept;
    }),

    /** What has become of these rollouts, as far as the ledger has their results. */
    readNodes: activity(
      async (asked: { taskRef: string; rolloutIds: string[] }): Promise<NodeFacts[]> => {
        const { task } = await documents.get(PackedTask, asked.taskRef);
        const replays = continuationWayOf(task) === 'replay';
        const results = await ledger.results(asked.rolloutIds);
        return Promise.all(results.map((result) => factsOf(documents, result, replays)));
      },
    ),
  };
}

async function continuationOf(
  parts: Parts,
  root: RolloutInput,
  { fork, packed, way }: { fork: ContinuationFork; packed: PackedTask; way: 'snapshot' | 'replay' },
): Promise<RolloutInput> {
  const { parentRolloutId, step, depth, index } = fork;
  const found = (await checkpointsOf(parts, parentRolloutId, way)).find((c) => c.step === step);
  if (!found) {
    throw new DenvError(
      'invalid_request',
      `${parentRolloutId} has no checkpoint before step ${step} to go on from`,
    );
  }
  const { trajectory, spent, version } = found;
  const start =
    way === 'replay' ? await replayFrom(parts.documents, parentRolloutId, trajectory) : { version };
  const from: Continuation = { parentRolloutId, step, trajectory, spent, way, depth, ...start };
  const settings = { ...root.model.settings, seed: (root.model.settings.seed ?? 0) + fork.seed };
  const { agent, limits } = root;
  return {
    ...root,
    rolloutId: fork.rolloutId,
    index,
    identity: identityOf({
      taskDigest: packed.digest,
      agent,
      model: root.model.name,
      settings,
      limits,
      index,
      from: { parentRolloutId, step, trajectory },
    }),
    model: { ...root.model, settings },
    from,
  };
}

/** What a replay starts from, and the transcript that it compares with: an edited observation is not what a world answered. */
async function replayFrom(
  documents: Documents,
  rolloutId: string,
  trajectory: string,
): Promise<Pick<Continuation, 'version' | 'replay'>> {
  const { version } = await baseOf(documents, rolloutId);
  const from = (await documents.find(RolloutInput, inputName(rolloutId)))?.from;
  if (!from?.replay || from.replay === from.trajectory) return { version, replay: trajectory };
  const { step } = from;
  const isBefore = (entry: TrajectoryEntry): boolean => !('step' in entry) || entry.step < step;
  const answered = (await load(documents, from.replay)).filter(isBefore);
  const own = (await load(documents, trajectory)).filter((entry) => !isBefore(entry));
  return { version, replay: await append(documents, '', [...answered, ...own]) };
}

/**
 * The version that a rollout's own calls began in, itself or the ancestor whose replay it goes on: empty where that is the task.
 * `step` is the first one that was made in it.
 */
export async function baseOf(
  documents: Documents,
  rolloutId: string,
): Promise<{ version: string; step: number }> {
  const from = (await documents.find(RolloutInput, inputName(rolloutId)))?.from;
  if (!from) return { version: '', step: 0 };
  if (from.way !== 'replay') return { version: from.version, step: from.step };
  return from.version === '' ? { version: '', step: 0 } : baseOf(documents, from.parentRolloutId);
}

/** Of a rollout that has ended, or runs; none when neither the ledger nor Temporal knows it. */
async function checkpointsOf(
  { documents, ledger }: Parts,
  rolloutId: string,
  way: 'snapshot' | 'replay',
): Promise<Checkpoint[]> {
  const [result] = await ledger.results([rolloutId]);
  const { checkpoints, trajectory } = result ?? (await statusOf(rolloutId)) ?? none;
  return way === 'replay' ? checkpointsIn(documents, trajectory) : checkpoints;
}

const none = { checkpoints: [], trajectory: '' };

async function statusOf(rolloutId: string): Promise<RolloutStatus | null> {
  const handle = Context.current().client.workflow.getHandle(rolloutId);
  try {
    return await handle.query<RolloutStatus>('status');
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return null;
    throw error;
  }
}

async function factsOf(
  documents: Documents,
  result: RolloutResult,
  replays: boolean,
): Promise<NodeFacts> {
  const { rolloutId, outcome, reward, failure, modelCalls, usage } = result;
  const checkpoints = replays
    ? await checkpointsIn(documents, result.trajectory)
    : result.checkpoints;
  return {
    rolloutId,
    state: failure?.class === 'cancelled' ? 'cancelled' : outcome,
    reward,
    checkpoints: checkpoints.slice(-toldCheckpoints).map(({ step }) => step),
    modelCalls,
    tokens: usage.promptTokens + usage.completionTokens,
    costUsd: usage.costUsd ?? 0,
  };
}
