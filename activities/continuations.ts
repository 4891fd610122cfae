import { Context } from '@temporalio/activity';
import type { ExploreNode } from '../contracts/exploration';
import { RolloutInput } from '../contracts/rollout';
import type { RolloutResult, RolloutStatus } from '../contracts/rollout';
import { PackedTask } from '../contracts/task';
import type { ContinuationWay } from '../contracts/task';
import { DenvError } from '../denv/errors';
import { prepareStart, toContinuationInput } from '../rollouts/continuation/start';
import type { Documents } from '../rollouts/documents';
import { inputName } from '../rollouts/inputs';
import { readEntries } from '../rollouts/trajectory/chain';
import { findPoint, stepsIn } from '../rollouts/trajectory/checkpoints';
import type { Progress } from '../rollouts/trajectory/checkpoints';
import { chooseContinuationWay } from '../rollouts/ways';
import { toDeclared } from '../stores/ledger';
import { nullIfGone } from '../temporal/states';
import { activity } from './support/heartbeat';
import type { Parts } from './support/parts';

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

/** A strategy is told at most this many of a rollout's steps, the last ones: what goes through a history is short. */
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
      const way = chooseContinuationWay(packed.task);
      const made: RolloutInput[] = [];
      for (const fork of input.forks) {
        const known = await documents.find(RolloutInput, inputName(fork.rolloutId));
        made.push(known ?? (await makeInput(parts, input.root, { fork, packed, way })));
      }
      const kept: RolloutInput[] = [];
      for (const one of made) {
        const data = Buffer.from(JSON.stringify(one));
        const { data: first } = await blobs.putIfAbsent(inputName(one.rolloutId), data);
        kept.push(RolloutInput.parse(JSON.parse(first.toString('utf8'))));
      }
      await ledger.declareRollouts(kept.map(toDeclared));
      return kept;
    }),

    /** Reads what has become of these rollouts, as far as the ledger has their results. */
    readNodes: activity(
      async (asked: { taskRef: string; rolloutIds: string[] }): Promise<NodeFacts[]> => {
        const { task } = await documents.get(PackedTask, asked.taskRef);
        const replays = chooseContinuationWay(task) === 'replay';
        const results = await ledger.results(asked.rolloutIds);
        return Promise.all(results.map((result) => readFacts(documents, result, replays)));
      },
    ),
  };
}

async function makeInput(
  parts: Parts,
  root: RolloutInput,
  { fork, packed, way }: { fork: ContinuationFork; packed: PackedTask; way: ContinuationWay },
): Promise<RolloutInput> {
  const { documents } = parts;
  const { rolloutId, index, seed: seedShift, parentRolloutId, step } = fork;
  const progress = await findProgress(parts, parentRolloutId);
  const point = progress && (await findPoint(documents, progress, step));
  if (!point || (way === 'snapshot' && point.version === '')) {
    throw new DenvError(
      'invalid_request',
      `${parentRolloutId} has no checkpoint before step ${step} to fork`,
    );
  }
  const parent = await documents.find(RolloutInput, inputName(parentRolloutId));
  const from = await prepareStart(
    { documents, findTranscript: (id) => findProgress(parts, id) },
    { parentRolloutId, from: parent?.from, point, way },
  );
  const taskDigest = packed.digest;
  return toContinuationInput(root, { rolloutId, index, seedShift, taskDigest, from });
}

/** Finds how far a rollout is that has ended, or runs; null when neither the ledger nor Temporal knows it. */
async function findProgress({ ledger }: Parts, rolloutId: string): Promise<Progress | null> {
  const [result] = await ledger.results([rolloutId]);
  if (result) return result;
  const handle = Context.current().client.workflow.getHandle(rolloutId);
  return nullIfGone(handle.query<RolloutStatus>('status'));
}

async function readFacts(
  documents: Documents,
  result: RolloutResult,
  replays: boolean,
): Promise<NodeFacts> {
  const { rolloutId, outcome, reward, failure, modelCalls, usage } = result;
  const steps = replays
    ? stepsIn(await readEntries(documents, result.trajectory))
    : result.checkpoints.map(({ step }) => step);
  return {
    rolloutId,
    state: failure?.class === 'cancelled' ? 'cancelled' : outcome,
    reward,
    checkpoints: steps.slice(-toldCheckpoints),
    modelCalls,
    tokens: usage.promptTokens + usage.completionTokens,
    costUsd: usage.costUsd ?? 0,
  };
}
