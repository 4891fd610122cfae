import type { BatchReport } from '../contracts/batch';
import type { RolloutInput } from '../contracts/rollout';
import { PackedTask } from '../contracts/task';
import type { CheckpointPolicy } from '../contracts/task';
import { readDocument } from '../rollouts/documents';
import { identityOf } from '../rollouts/identity';
import { loadTaskset } from '../tasks/rows';
import { planBatch } from '../client/api/plan';
import { formatReward } from '../client/reports/table';
import { cancelBatch, startBatch } from '../client/api/rollouts';
import type { Settings } from '../client/settings';
import { watchBatch } from '../client/api/watch';
import type { DemoStack } from './stack';

export interface TasksetRun {
  file: string;
  batchId: string;
  /** Base URL of the scripted model. */
  baseUrl: string;
  group: number;
  concurrency: number;
  /** Of the first of a group; each further one has the next. Without, all ask the model alike. */
  seed?: number;
  /** One such reward is enough: the rest is cancelled. */
  stopAtReward?: number;
  /** Instead of what the tasks say. */
  checkpoints?: CheckpointPolicy;
  /** Says only every so manieth result. */
  sayEvery?: number;
}

/**
 * What `rollouts run` does with `--model scripted`: plan, start, and follow to the end. When the demo is to stop, the batch is
 * cancelled, and its sandboxes are gone when this throws.
 */
export async function runTaskset(
  { rollouts, stopping }: DemoStack,
  settings: Settings,
  run: TasksetRun,
  say: (line: string) => void,
): Promise<BatchReport> {
  const taskset = await loadTaskset(run.file, { imagesAreHere: settings.denvServer === null });
  const plan = await planBatch(
    taskset,
    {
      batchId: run.batchId,
      agent: 'model',
      model: 'scripted',
      baseUrl: run.baseUrl,
      settings: {},
      group: run.group,
      taskIds: [],
      ...(run.checkpoints === undefined ? {} : { checkpoints: run.checkpoints }),
    },
    {
      blobs: rollouts.blobs,
      owner: rollouts.owner,
      searchAttributes: rollouts.searchAttributes,
      priceFile: settings.paths.prices,
    },
  );
  if (run.seed !== undefined) plan.rollouts = await seeded(rollouts, plan.rollouts, run.seed);
  await startBatch(rollouts, plan, run.concurrency);
  say(`batch ${run.batchId}: ${plan.rollouts.length} rollouts, ${run.concurrency} at once`);
  const cancel = (): void => {
    cancelBatch(rollouts, run.batchId).catch((error: unknown) => say(`cannot cancel: ${error}`));
  };
  stopping.addEventListener('abort', cancel);
  if (stopping.aborted) cancel();
  const report = await watchBatch(rollouts, run.batchId, {
    onResult({ taskId, index, reward }, { ended, declared }) {
      if (reward !== null && reward >= (run.stopAtReward ?? Infinity)) cancel();
      if (ended % (run.sayEvery ?? 1) !== 0) return;
      const said = reward === null ? 'no reward' : `reward ${formatReward(reward)}`;
      say(`[${ended}/${declared}] ${taskId}/${index} ${said}`);
    },
    onQuiet: ({ running, ended, declared }) => say(`[${ended}/${declared}] ${running} running`),
  });
  stopping.throwIfAborted();
  return report;
}

/** The same rollouts, each with a seed of its own. */
async function seeded(
  { blobs }: DemoStack['rollouts'],
  inputs: RolloutInput[],
  first: number,
): Promise<RolloutInput[]> {
  const digests = new Map<string, string>();
  const digestOf = async (taskRef: string): Promise<string> => {
    const known = digests.get(taskRef);
    if (known !== undefined) return known;
    const { digest } = await readDocument(blobs, PackedTask, taskRef);
    digests.set(taskRef, digest);
    return digest;
  };
  return Promise.all(
    inputs.map(async (input) => {
      const { agent, limits, index } = input;
      const settings = { ...input.model.settings, seed: first + index };
      const model = { ...input.model, settings };
      const taskDigest = await digestOf(input.taskRef);
      const meaning = { taskDigest, agent, model: model.name, settings, limits, index };
      return { ...input, model, identity: identityOf(meaning) };
    }),
  );
}

/** As in `demo-1129-1834-07`: unique enough for one home, and short enough to type. */
export function newBatchId(name: string): string {
  const [, month, day, hour, minute, second] =
    /-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)/.exec(new Date().toISOString()) ?? [];
  return `${name}-${month}${day}-${hour}${minute}-${second}`;
}
