import type { Command } from 'commander';
import { connect } from '../api/connect';
import type { Context } from '../context';
import { diffRollouts } from '../api/diff';
import { diffLines } from '../reports/diff';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = {
  files: { help: 'list all files that differ, not only the first twenty' },
  json: { help: 'print one JSON object, with nothing cut' },
} satisfies OptionTable;

type DiffOptions = OptionValues<typeof options>;

export function addDiff(program: Command, context: Context): void {
  const command = program
    .command('diff')
    .description('compare two rollouts: where they part, how each ended, and which files differ')
    .argument('<a>', 'id of a rollout')
    .argument('<b>', 'id of another');
  addOptions(command, options)
    .addHelpText(
      'after',
      `
Examples:
  rollouts diff rollout/nightly/restart-web/0 rollout/nightly/restart-web/1
  rollouts diff rollout/nightly/restart-web/0 rollout/nightly/restart-web/0/e2.1 --files

The files compared are those that the verifiers saw, or else those of the last checkpoints. How long a call took and
what a reply cost do not count as differences.

Exit codes: 0 whether they differ or not, 2 bad usage, 1 anything else.`,
    )
    .action((a: string, b: string, given: DiffOptions) => diff(context, [a, b], given));
}

async function diff(context: Context, ids: [string, string], given: DiffOptions): Promise<void> {
  const rollouts = await connect(context.settings);
  try {
    const found = await diffRollouts(rollouts, ids);
    if (given.json) context.print(JSON.stringify(found));
    else for (const line of diffLines(found, given)) context.print(line);
  } finally {
    await rollouts.close();
  }
}
