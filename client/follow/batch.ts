import type { BatchReport } from '../../contracts/batch';
import type { RolloutResult } from '../../contracts/rollout';
import type { Rollouts } from '../api/connect';
import type { Context } from '../context';
import { formatReward, oneLine, reportLines } from '../reports/table';
import { onInterrupts } from './interrupts';
import { cancelBatch } from '../api/rollouts';
import { watchBatch } from '../api/watch';

/**
 * Follows a batch with a line for each rollout that ends. With `cancelOnInterrupt` the first Ctrl-C cancels the batch, and it
 * is followed until its clean-up is done; the second leaves. Otherwise Ctrl-C leaves. A closed terminal leaves too, and the
 * batch keeps running.
 */
export async function followBatch(
  context: Context,
  rollouts: Rollouts,
  batchId: string,
  options: { cancelOnInterrupt: boolean },
): Promise<BatchReport> {
  const stopListening = onInterrupts(
    context,
    options.cancelOnInterrupt ? () => cancelBatch(rollouts, batchId) : null,
  );
  try {
    return await watchBatch(rollouts, batchId, {
      onResult: (result, counts) => context.note(resultLine(result, counts)),
      onQuiet: ({ running, ended, declared }) => {
        const how =
          running === null ? 'no worker answers; see: rollouts status' : `${running} running`;
        context.note(`[${ended}/${declared}] ${how}`);
      },
    });
  } finally {
    stopListening();
  }
}

/** Prints the answer of `run` and `watch`, and sets their exit code. */
export function printReport(
  context: Context,
  report: BatchReport,
  options: { json?: boolean },
): void {
  if (options.json) context.print(JSON.stringify(report));
  else for (const line of ['', ...reportLines(report), ...nextLines(report)]) context.print(line);
  context.exitWith(report.unscored === 0 ? 0 : 3);
}

function nextLines(report: BatchReport): string[] {
  const one = report.rollouts.find(({ outcome }) => outcome === 'unscored') ?? report.rollouts[0];
  // A verifier that failed can be asked again, and nothing else has to be.
  const verifiers = report.rollouts.some(({ failure }) => failure?.class === 'verifier');
  return [
    ...(one ? [`look closer: rollouts show ${one.rolloutId}`] : []),
    ...(verifiers ? [`verify again: rollouts regrade ${report.batchId} --only-unscored`] : []),
  ];
}

export function resultLine(
  result: RolloutResult,
  { ended, declared }: { ended: number; declared: number },
): string {
  const reward = result.reward === null ? 'no reward' : `reward ${formatReward(result.reward)}`;
  const why = result.failure
    ? `, ${result.failure.class}: ${oneLine(result.failure.message, 400)}`
    : '';
  const seconds = (Date.parse(result.endedAt) - Date.parse(result.startedAt)) / 1000;
  const spent = `${result.steps} steps, ${seconds.toFixed(1)} s`;
  return `[${ended}/${declared}] ${result.taskId}/${result.index} ${result.outcome}, ${reward}, ${spent}${why}`;
}
