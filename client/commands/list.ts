import type { Command } from 'commander';
import { FailureClass } from '../../contracts/rollout';
import type { RolloutRow } from '../../stores/ledger';
import { openRecords } from '../api/connect';
import type { Context } from '../context';
import { currentResult, regradedOf } from '../../rollouts/verdicts';
import { choice, wholeNumberFrom } from './args';
import { rewardWords, tableLines } from '../reports/table';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = {
  unscored: { help: 'only those that ended without a score' },
  class: {
    takes: '<class>',
    help: 'only those that failed for this reason',
    parse: choice(FailureClass.options),
  },
  batch: { takes: '<id>', help: 'only rollouts of this batch' },
  limit: {
    takes: '<n>',
    help: 'at most this many, the newest',
    parse: wholeNumberFrom(1, 1_000_000),
    default: 100,
  },
  json: { help: 'print one JSON array' },
} satisfies OptionTable;

type ListOptions = OptionValues<typeof options>;

export function addList(program: Command, context: Context): void {
  const command = program
    .command('list')
    .description('list rollouts from the ledger, the newest last');
  addOptions(command, options)
    .addHelpText(
      'after',
      `\nExamples:\n  rollouts list\n  rollouts list --unscored --class verifier\n  rollouts list --batch nightly --json\n\nWorks without a running stack.\n\nClasses: ${FailureClass.options.join(', ')}.`,
    )
    .action((given: ListOptions) => list(context, given));
}

async function list(context: Context, given: ListOptions): Promise<void> {
  const records = await openRecords(context.settings);
  try {
    // One more than asked for tells whether there are more.
    const found = await records.ledger.rollouts({
      batchId: given.batch,
      unscored: given.unscored,
      failureClass: given.class,
      limit: given.limit + 1,
    });
    const rows = found.slice(-given.limit);
    if (given.json) context.print(JSON.stringify(rows.map(jsonRow)));
    else if (rows.length === 0) context.print('no rollouts');
    else for (const line of tableLines(head, rows.map(cells))) context.print(line);
    if (found.length > rows.length) {
      context.note(`these are the newest ${rows.length}; list more with --limit`);
    }
  } finally {
    await records.close();
  }
}

const head = ['rollout', 'outcome', 'reward', 'stop', 'failure'];

function cells(row: RolloutRow): string[] {
  const { rolloutId } = row;
  const result = currentResult(row);
  if (!result) return [rolloutId, 'no result yet', '-', '-', ''];
  return [
    rolloutId,
    result.outcome,
    rewardWords({ reward: result.reward, regraded: regradedOf(row) }),
    result.stopReason ?? '-',
    result.failure?.class ?? '',
  ];
}

function jsonRow(row: RolloutRow) {
  const { result: _first, regraded: _later, ...declared } = row;
  const result = currentResult(row);
  const regraded = regradedOf(row);
  return {
    ...declared,
    ...(regraded ? { regraded } : {}),
    outcome: result?.outcome ?? null,
    reward: result?.reward ?? null,
    rewards: result?.rewards ?? {},
    stopReason: result?.stopReason ?? null,
    failure: result?.failure ?? null,
    endedAt: result?.endedAt ?? null,
  };
}
