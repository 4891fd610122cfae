import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import type { RolloutSummary } from '../../contracts/batch';
import { newFailure } from '../../contracts/failures';
import { ContinuationWay } from '../../contracts/task';
import { connect } from '../api/connect';
import type { Context } from '../context';
import { reasonOf, UsageError } from '../errors';
import { startForks } from '../api/fork';
import { followForks } from '../follow/forks';
import { onInterrupts } from '../follow/interrupts';
import { cancelRollout } from '../api/rollouts';
import { choice, collect, forkStep, wholeNumberFrom } from './args';
import { formatReward, oneLine, reportOf, tableLines } from '../reports/table';
import type { RolloutRow } from '../../stores/ledger';
import { changesOf } from './change-options';
import type { ChangeOptions } from './change-options';

interface ForkOptions extends ChangeOptions {
  at: number | 'last';
  count: number;
  message?: string;
  editObservation?: string[];
  way?: ContinuationWay;
  json?: boolean;
  detach?: boolean;
}

export function addFork(program: Command, context: Context): void {
  program
    .command('fork')
    .description('go on from a step of a rollout, differently: another model, a word, another view')
    .argument('<rollout>', 'id of the rollout; it may still run')
    .requiredOption(
      '--at <step|last>',
      'from before this step, or the last checkpoint: of a rollout that runs, one that is taken now',
      forkStep,
    )
    .option('--model <name>', 'another model than the rollout had')
    .option('--base-url <url>', 'where that model answers')
    .option('--temperature <t>', 'as --model-arg temperature=<t>')
    .option(
      '--model-arg <name=value>',
      'as of run, over the rollout\u2019s own; again for more',
      collect,
    )
    .option('--message <text>', 'said to the agent before that step')
    .option(
      '--edit-observation <call=file>',
      'what the agent is shown of a call before that step: STEP.N, the n-th call of a step, or the call\u2019s id; the text from a file, or - for stdin; again for more',
      collect,
    )
    .option('--way <way>', 'snapshot or replay; see explore', choice(ContinuationWay.options))
    .option('--count <n>', 'so many of them', wholeNumberFrom(1, 64), 1)
    .option('--json', 'print one JSON object at the end, and nothing else on stdout')
    .option('--detach', 'return when they are started')
    .addHelpText(
      'after',
      `
Examples:
  rollouts fork rollout/nightly/restart-web/0 --at 3 --model openai/larger --base-url http://127.0.0.1:8000/v1
  rollouts fork rollout/nightly/restart-web/0 --at 3 --message "Look at the proxy first."
  echo 'disk is full' | rollouts fork rollout/nightly/restart-web/0 --at 3 --edit-observation 2.1=-

The fork is a rollout of its own, with the world as it was and the transcript up to that step, of which no model is asked again.
rollouts show says what it goes on from, by which way and what was edited. Without a checkpoint before the step the way is replay:
the task's start and the calls before are made again, and must show the same again.

Ctrl-C cancels and waits for the clean-up; a second one leaves at once. A closed terminal changes nothing.

Exit codes: 0 all scored, 3 some are not, 2 bad usage, 130 left, 1 anything else.`,
    )
    .action((rolloutId: string, options: ForkOptions) => fork(context, rolloutId, options));
}

async function fork(context: Context, rolloutId: string, options: ForkOptions): Promise<void> {
  const edits = await editsOf(options.editObservation ?? []);
  const changes = changesOf(options);
  const rollouts = await connect(context.settings);
  const started = startForks(rollouts, {
    rolloutId,
    at: options.at,
    count: options.count,
    way: options.way,
    changes,
    message: options.message,
    edits,
    priceFile: context.settings.paths.prices,
  });
  // Before anything says that they have begun: a Ctrl-C right then stops them too.
  const stopListening = onInterrupts(context, async () => {
    const { rolloutIds } = await started;
    await Promise.allSettled(rolloutIds.map((id) => cancelRollout(rollouts, id)));
  });
  try {
    const { rolloutIds, chosen } = await started;
    for (const id of rolloutIds) context.note(`${id} goes on by ${chosen.way}: ${chosen.why}`);
    if (options.detach) {
      if (options.json) context.print(JSON.stringify({ rolloutIds, way: chosen.way }));
      else for (const id of rolloutIds) context.print(id);
      return;
    }
    const rows = await followForks(context, rollouts, rolloutIds);
    printForks(context, rolloutId, rows, options);
  } finally {
    stopListening();
    await rollouts.close();
  }
}

function printForks(
  context: Context,
  parentId: string,
  rows: RolloutRow[],
  { json }: ForkOptions,
): void {
  const report = reportOf(rows[0]?.batchId ?? '', rows, () => noResult);
  const { rollouts } = report;
  if (json) context.print(JSON.stringify({ parentRolloutId: parentId, rollouts }));
  else for (const line of forkLines(rollouts)) context.print(line);
  context.exitWith(report.unscored === 0 ? 0 : 3);
}

function forkLines(rollouts: RolloutSummary[]): string[] {
  const rows = rollouts.map(({ rolloutId, outcome, reward, stopReason, steps, failure }) => [
    rolloutId,
    outcome,
    reward === null ? '-' : formatReward(reward),
    stopReason ?? '-',
    String(steps),
    failure ? `${failure.class}: ${oneLine(failure.message)}` : '',
  ]);
  return [
    ...tableLines(['fork', 'outcome', 'reward', 'stop', 'steps', ''], rows),
    '',
    ...rollouts.slice(0, 1).map(({ rolloutId }) => `look closer: rollouts show ${rolloutId}`),
  ];
}

const noResult = newFailure('NoResult', 'create', 'it has no result; see: rollouts doctor');

/** `CALL=FILE`, where a file `-` is stdin. @throws UsageError */
async function editsOf(args: string[]): Promise<{ call: string; text: string }[]> {
  const edits: { call: string; text: string }[] = [];
  let stdinTaken = false;
  for (const arg of args) {
    const at = arg.indexOf('=');
    const [call, file] = [arg.slice(0, at), arg.slice(at + 1)];
    if (at < 1 || file === '') {
      throw new UsageError(
        `--edit-observation ${arg}: give call=file, as in 2.1=seen.txt or 2.1=-`,
      );
    }
    if (file === '-' && stdinTaken)
      throw new UsageError('--edit-observation: stdin can be read once');
    stdinTaken ||= file === '-';
    edits.push({ call, text: file === '-' ? await text(process.stdin) : await textOf(file) });
  }
  return edits;
}

async function textOf(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new UsageError(`--edit-observation: ${file} cannot be read: ${reasonOf(error)}`);
  }
}
