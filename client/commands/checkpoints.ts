import type { Command } from 'commander';
import { ConfigError, retentionFrom } from '../../worker/config';
import { checkpointsOf } from '../api/checkpoints';
import type { KeptCheckpoint } from '../api/checkpoints';
import { connect } from '../api/connect';
import type { Context } from '../context';
import { UsageError } from '../errors';
import { tableLines } from '../reports/table';
import { sizeWords, spanWords } from '../reports/sizes';

export function addCheckpoints(program: Command, context: Context): void {
  program
    .command('checkpoints')
    .description('list the checkpoints of a rollout, and what keeps each')
    .argument('<rollout>', 'id of the rollout; it may still run')
    .option('--json', 'print one JSON array')
    .addHelpText(
      'after',
      `
Examples:
  rollouts checkpoints rollout/nightly/restart-web/0
  rollouts fork rollout/nightly/restart-web/0 --at 3

The size is what a checkpoint alone holds on disk; what it shares with others is nobody's. Kept is what \`keep\` of the task or
--keep of run says; where nobody said, checkpoints stay for a day after the end, the final snapshot for longer. Nothing stays past
ROLLOUTS_VERSIONS_DAYS (7) unless something at work needs it, and with ROLLOUTS_VERSIONS_GB the oldest go when the disk is full.
What a verdict judged goes by its age alone. The worker has these settings: give this command the same.`,
    )
    .action((rolloutId: string, options: { json?: boolean }) =>
      checkpoints(context, rolloutId, options),
    );
}

async function checkpoints(
  context: Context,
  rolloutId: string,
  options: { json?: boolean },
): Promise<void> {
  const rules = rulesOf(context);
  const rollouts = await connect(context.settings);
  try {
    const found = await checkpointsOf(rollouts, rolloutId, rules, new Date());
    if (options.json) context.print(JSON.stringify(found));
    else for (const line of checkpointTable(found)) context.print(line);
  } finally {
    await rollouts.close();
  }
}

/** The collector's rules, as this command's own environment has them. @throws UsageError */
export function rulesOf({ env }: Context) {
  try {
    return retentionFrom(env);
  } catch (error) {
    if (error instanceof ConfigError) throw new UsageError(error.message);
    throw error;
  }
}

/** Checkpoints as a person reads them. */
export function checkpointTable(found: KeptCheckpoint[]): string[] {
  if (found.length === 0) return ['no checkpoints, and no final snapshot'];
  const rows = found.map(({ step, version, exists, bytes, ageS, expiresAt, keptBy }) => [
    step === null ? 'final' : String(step),
    version,
    bytes === null ? '-' : sizeWords(bytes),
    ageS === null ? '-' : spanWords(ageS),
    expiresAt ?? '-',
    exists ? keptWords(keptBy) : 'gone: it has expired or was removed',
  ]);
  return tableLines(['step', 'version', 'size', 'age', 'expires', 'kept by'], rows);
}

function keptWords(keptBy: KeptCheckpoint['keptBy']): string {
  if (!keptBy) return '-';
  return keptBy.kind === 'none' ? `goes soon: ${keptBy.why}` : keptBy.why;
}
