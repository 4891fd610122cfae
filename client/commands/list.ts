import type { Command } from 'commander';
import { FailureClass } from '../../contracts/rollout';
import type { RolloutRow } from '../../stores/ledger';
import { openRecords } from '../api/connect';
import type { Context } from '../context';
import { currentResult, regradedOf } from '../../rollouts/verdicts';
import { choice, wholeNumberFrom } from './args';
import { rewardWords, tableLines } from '../reports/table';

interface ListOptions {
  unscored?: boolean;
  class?: FailureClass;
  batch?: string;
  limit: number;
  json?: boolean;
}

export function addList(program: Command, context: Context): void {
  program
    .command('list')
    .description('list rollouts from the ledger, the newest last')
    .option('--unscored', 'only those that ended without a score')
    .option('--class <class>', 'only failures of this class', choice(FailureClass.options))
    .option('--batch <id>', 'only rollouts of this batch')
    .option('--limit <n>', 'as many as this', wholeNumberFrom(1, 1_000_000), 100)
    .option('--json', 'print one JSON array')
    .addHelpText(
      'after',
      '\nExamples:\n  rollouts list\n  rollouts list --unscored --class verifier\n  rollouts list --batch nightly --json\n\nReads the ledger alone: the stack need not run.',
    )
    .action((options: ListOptions) => list(context, options));
}

async function list(context: Context, options: ListOptions): Promise<void> {
  const records = await openRecords(context.settings);
  try {
    // One more than asked for tells whether there are more.
    const found = await records.ledger.rollouts({
      batchId: options.batch,
      unscored: options.unscored,
      failureClass: options.class,
      limit: options.limit + 1,
    });
    const rows = found.slice(-options.limit);
    if (options.json) context.print(JSON.stringify(rows.map(jsonRow)));
    else if (rows.length === 0) context.print('no rollouts');
    else for (const line of tableLines(head, rows.map(cells))) context.print(line);
    if (found.length > rows.length) {
      context.note(`the newest ${rows.length}; more with --limit`);
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
