import type { Command } from 'commander';
import { connect } from '../api/connect';
import type { Rollouts } from '../api/connect';
import type { Context } from '../context';
import { isExploration } from '../../workflows/continuation-ids';
import { followExploration, printExploration } from '../follow/exploration';
import { followBatch, printReport } from '../follow/batch';
import { onInterrupts } from '../follow/interrupts';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = {
  json: { help: 'print one JSON object at the end, and nothing else on stdout' },
} satisfies OptionTable;

type WatchOptions = OptionValues<typeof options>;

export function addWatch(program: Command, context: Context): void {
  const command = program
    .command('watch')
    .description('follow a batch or an exploration until it ends, then print its report')
    .argument('<batch>', 'name of the batch, or id of the exploration');
  addOptions(command, options)
    .addHelpText(
      'after',
      '\nExamples:\n  rollouts watch nightly\n  rollouts watch nightly --json\n  rollouts watch explore/rollout/nightly/restart-web/0/1\n\nCtrl-C leaves, and the batch keeps running. Stop it with: rollouts cancel BATCH. Exit codes are those of run.',
    )
    .action((batch: string, given: WatchOptions) => watch(context, batch, given));
}

async function watch(context: Context, batchId: string, given: WatchOptions): Promise<void> {
  const rollouts = await connect(context.settings);
  try {
    if (isExploration(batchId)) {
      return await watchExploration(context, rollouts, batchId, given);
    }
    const report = await followBatch(context, rollouts, batchId, { cancelOnInterrupt: false });
    printReport(context, report, given);
  } finally {
    await rollouts.close();
  }
}

async function watchExploration(
  context: Context,
  rollouts: Rollouts,
  exploreId: string,
  given: WatchOptions,
): Promise<void> {
  const stopListening = onInterrupts(context, null);
  try {
    printExploration(context, await followExploration(context, rollouts, exploreId), given);
  } finally {
    stopListening();
  }
}
