import type { Command } from 'commander';
import { retentionFrom } from '../../retention/settings';
import { ConfigError } from '../../rollouts/environment';
import { checkpointsOf } from '../api/checkpoints';
import type { KeptCheckpoint } from '../api/checkpoints';
import { connect } from '../api/connect';
import type { Context } from '../context';
import { UsageError } from '../errors';
import { tableLines } from '../reports/table';
import { sizeWords, spanWords } from '../reports/sizes';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = { json: { help: 'print one JSON array' } } satisfies OptionTable;

type CheckpointsOptions = OptionValues<typeof options>;

export function addCheckpoints(program: Command, context: Context): void {
  const command = program
    .command('checkpoints')
    .description('list the checkpoints of a rollout, and what keeps each')
    .argument('<rollout>', 'id of the rollout; it may still run');
  addOptions(command, options)
    .addHelpText(
      'after',
      `
Examples:
  rollouts checkpoints rollout/nightly/restart-web/0
  rollouts fork rollout/nightly/restart-web/0 --at 3

The size of a checkpoint is what it alone holds on disk; what it shares with others counts for none.

What is kept: what \`keep\` of the task or --keep of run says; where neither says, checkpoints stay for a day after the
rollout's end, and the final snapshot for longer. Nothing stays past ROLLOUTS_VERSIONS_DAYS (7) unless a running workflow needs
it, and past ROLLOUTS_VERSIONS_GB the oldest are removed. A version that a verifier saw stays for its days whatever \`keep\` says.
Give this command the same settings as the worker.`,
    )
    .action((rolloutId: string, given: CheckpointsOptions) =>
      checkpoints(context, rolloutId, given),
    );
}

async function checkpoints(
  context: Context,
  rolloutId: string,
  { json }: CheckpointsOptions,
): Promise<void> {
  const rules = retentionRules(context);
  const rollouts = await connect(context.settings);
  try {
    const found = await checkpointsOf(rollouts, rolloutId, rules, new Date());
    if (json) context.print(JSON.stringify(found));
    else for (const line of checkpointTable(found)) context.print(line);
  } finally {
    await rollouts.close();
  }
}

/** Parses the collector's rules from this command's own environment. @throws UsageError */
export function retentionRules({ env }: Context) {
  try {
    return retentionFrom(env);
  } catch (error) {
    if (error instanceof ConfigError) throw new UsageError(error.message);
    throw error;
  }
}

/** Returns checkpoints as a person reads them. */
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
  return tableLines(['step', 'version', 'size', 'age', 'expires', 'kept because'], rows);
}

function keptWords(keptBy: KeptCheckpoint['keptBy']): string {
  if (!keptBy) return '-';
  return keptBy.kind === 'none' ? `removed soon: ${keptBy.why}` : keptBy.why;
}
