import type { Command } from 'commander';
import { connect } from '../api/connect';
import type { Context } from '../context';
import { diffRollouts } from '../api/diff';
import { diffLines } from '../reports/diff';

interface DiffOptions {
  json?: boolean;
  files?: boolean;
}

export function addDiff(program: Command, context: Context): void {
  program
    .command('diff')
    .description('show where two rollouts part, what came of each, and which files differ')
    .argument('<a>', 'id of a rollout')
    .argument('<b>', 'id of another')
    .option('--files', 'list all files that differ, not only the first twenty')
    .option('--json', 'print one JSON object, nothing cut')
    .addHelpText(
      'after',
      `
Examples:
  rollouts diff rollout/nightly/restart-web/0 rollout/nightly/restart-web/1
  rollouts diff rollout/nightly/restart-web/0 rollout/nightly/restart-web/0/e2.1 --files

Files are those of the versions that were judged, or else of the last checkpoints; one that has expired is said. How long a
call took and what a reply cost is no difference.

Exit codes: 0 whether they differ or not, 2 bad usage, 1 anything else.`,
    )
    .action((a: string, b: string, options: DiffOptions) => diff(context, [a, b], options));
}

async function diff(context: Context, ids: [string, string], options: DiffOptions): Promise<void> {
  const rollouts = await connect(context.settings);
  try {
    const found = await diffRollouts(rollouts, ids);
    if (options.json) context.print(JSON.stringify(found));
    else for (const line of diffLines(found, options)) context.print(line);
  } finally {
    await rollouts.close();
  }
}
