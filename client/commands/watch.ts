import type { Command } from 'commander';
import { connect } from '../api/connect';
import type { Rollouts } from '../api/connect';
import type { Context } from '../context';
import { isExploration } from '../../workflows/continuation-ids';
import { followExploration, printExploration } from '../follow/exploration';
import { followBatch, printReport } from '../follow/batch';
import { onInterrupts } from '../follow/interrupts';

export function addWatch(program: Command, context: Context): void {
  program
    .command('watch')
    .description('follow a batch or an exploration until it ends, then print its report')
    .argument('<batch>', 'name of the batch, or id of the exploration')
    .option('--json', 'print one JSON object at the end, and nothing else on stdout')
    .addHelpText(
      'after',
      '\nExamples:\n  rollouts watch nightly\n  rollouts watch nightly --json\n  rollouts watch explore/rollout/nightly/restart-web/0/1\n\nCtrl-C leaves; the batch goes on. Stop it with: rollouts cancel BATCH. Exit codes are those of run.',
    )
    .action((batch: string, options: { json?: boolean }) => watch(context, batch, options));
}

async function watch(
  context: Context,
  batchId: string,
  options: { json?: boolean },
): Promise<void> {
  const rollouts = await connect(context.settings);
  try {
    if (isExploration(batchId)) {
      return await watchExploration(context, rollouts, batchId, options);
    }
    const report = await followBatch(context, rollouts, batchId, { cancelOnInterrupt: false });
    printReport(context, report, options);
  } finally {
    await rollouts.close();
  }
}

async function watchExploration(
  context: Context,
  rollouts: Rollouts,
  exploreId: string,
  options: { json?: boolean },
): Promise<void> {
  const stopListening = onInterrupts(context, null);
  try {
    printExploration(context, await followExploration(context, rollouts, exploreId), options);
  } finally {
    stopListening();
  }
}
