import type { Command } from 'commander';
import { openRecords } from '../api/connect';
import type { Context } from '../context';
import { readTree } from '../api/tree';
import { treeDot } from '../reports/tree-dot';
import { treeLines } from '../reports/tree';
import { UsageError } from '../errors';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = {
  json: { help: 'print one JSON object' },
  dot: { help: 'print a graph for Graphviz' },
} satisfies OptionTable;

type TreeOptions = OptionValues<typeof options>;

export function addTree(program: Command, context: Context): void {
  const command = program
    .command('tree')
    .description('show the tree of a rollout: its continuations, and theirs')
    .argument('<rollout>', 'id of the rollout');
  addOptions(command, options)
    .addHelpText(
      'after',
      `
Examples:
  rollouts tree rollout/nightly/restart-web/0
  rollouts tree rollout/nightly/restart-web/0 --dot | dot -Tsvg > tree.svg

The value of a step is the mean reward of the scored rollouts that continue from it, directly or not; its visits are how
many rollouts do. Beside each continuation stands what its agent did first. Works without a running stack.

Exit codes: 0, 2 bad usage, 1 anything else.`,
    )
    .action((rolloutId: string, given: TreeOptions) => tree(context, rolloutId, given));
}

async function tree(
  context: Context,
  rolloutId: string,
  { json, dot }: TreeOptions,
): Promise<void> {
  if (json && dot) throw new UsageError('--json and --dot exclude each other; give one of them');
  const records = await openRecords(context.settings);
  try {
    const grown = await readTree(records, rolloutId);
    if (json) context.print(JSON.stringify(grown));
    else for (const line of dot ? treeDot(grown) : treeLines(grown)) context.print(line);
  } finally {
    await records.close();
  }
}
