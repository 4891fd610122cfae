import type { BatchReport } from '../../contracts/batch';
import { loadTaskset } from '../../tasks/rows';
import { planBatch } from '../plan';
import { formatReward } from '../report';
import { cancelBatch, startBatch } from '../rollouts';
import type { Settings } from '../settings';
import { watchBatch } from '../watch';
import type { DemoStack } from './stack';

export interface TasksetRun {
  file: string;
  batchId: string;
  /** Base URL of the scripted model. */
  baseUrl: string;
  group: number;
  concurrency: number;
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
    },
    {
      blobs: rollouts.blobs,
      owner: rollouts.owner,
      searchAttributes: rollouts.searchAttributes,
      priceFile: settings.paths.prices,
    },
  );
  await startBatch(rollouts, plan, run.concurrency);
  say(`batch ${run.batchId}: ${plan.rollouts.length} rollouts, ${run.concurrency} at once`);
  const cancel = (): void => {
    cancelBatch(rollouts, run.batchId).catch((error: unknown) => say(`cannot cancel: ${error}`));
  };
  stopping.addEventListener('abort', cancel);
  if (stopping.aborted) cancel();
  const report = await watchBatch(rollouts, run.batchId, {
    onResult({ taskId, index, reward }, { ended, declared }) {
      const said = reward === null ? 'no reward' : `reward ${formatReward(reward)}`;
      say(`[${ended}/${declared}] ${taskId}/${index} ${said}`);
    },
    onQuiet: ({ running, ended, declared }) => say(`[${ended}/${declared}] ${running} running`),
  });
  stopping.throwIfAborted();
  return report;
}

/** As in `demo-1129-1834-07`: unique enough for one home, and short enough to type. */
export function newBatchId(name: string): string {
  const [, month, day, hour, minute, second] =
    /-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)/.exec(new Date().toISOString()) ?? [];
  return `${name}-${month}${day}-${hour}${minute}-${second}`;
}
