import type { Command } from 'commander';
import { openRecords } from '../api/connect';
import type { Context } from '../context';
import { readTree } from '../api/tree';
import { treeDot } from '../reports/tree-dot';
import { treeLines } from '../reports/tree';
import { UsageError } from '../errors';

interface TreeOptions {
  json?: boolean;
  dot?: boolean;
}

export function addTree(program: Command, context: Context): void {
  program
    .command('tree')
    .description('show all that came of a rollout: its continuations, and theirs')
    .argument('<rollout>', 'id of the rollout')
    .option('--json', 'print one JSON object')
    .option('--dot', 'print it for Graphviz')
    .addHelpText(
      'after',
      `
Examples:
  rollouts tree rollout/nightly/restart-web/0
  rollouts tree rollout/nightly/restart-web/0 --dot | dot -Tsvg > tree.svg

A step's value is the mean reward of all that came of it and was scored; its visits are the rollouts that did. Beside each
continuation stands what its agent did first. Works without a running stack.

Exit codes: 0, 2 bad usage, 1 anything else.`,
    )
    .action((rolloutId: string, options: TreeOptions) => tree(context, rolloutId, options));
}

async function tree(context: Context, rolloutId: string, options: TreeOptions): Promise<void> {
  if (options.json && options.dot) throw new UsageError('--json and --dot exclude each other');
  const records = await openRecords(context.settings);
  try {
    const grown = await readTree(records, rolloutId);
    if (options.json) context.print(JSON.stringify(grown));
    else for (const line of options.dot ? treeDot(grown) : treeLines(grown)) context.print(line);
  } finally {
    await records.close();
  }
}
