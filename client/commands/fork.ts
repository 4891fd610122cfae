import { readFile } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import type { Command } from 'commander';
import type { RolloutSummary } from '../../contracts/batch';
import { newFailure } from '../../contracts/failures';
import { connect } from '../api/connect';
import type { Context } from '../context';
import { reasonOf, UsageError } from '../errors';
import { startForks } from '../api/fork';
import { followForks } from '../follow/forks';
import { onInterrupts } from '../follow/interrupts';
import { cancelRollout } from '../api/rollouts';
import { collect, continuationWay, forkStep, wholeNumberFrom } from './args';
import { toBatchReport } from '../api/batch-report';
import { formatReward, oneLine, tableLines } from '../reports/table';
import type { RolloutRow } from '../../stores/ledger';
import { modelOptions, toModelChanges } from './model-options';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = {
  at: {
    takes: '<step|last>',
    help: 'step to fork from; last is the newest checkpoint, or a new one while the rollout runs',
    parse: forkStep,
    required: true,
  },
  ...modelOptions,
  message: { takes: '<text>', help: 'message to the agent before that step' },
  editObservation: {
    takes: '<call=file>',
    help: 'show the agent other text for a call before that step. The call is STEP.N, the n-th of a step, or its id; the text comes from a file, or from stdin for -; give it again for more',
    parse: collect,
  },
  way: { takes: '<way>', help: 'snapshot or replay; see explore', parse: continuationWay },
  count: { takes: '<n>', help: 'how many forks', parse: wholeNumberFrom(1, 64), default: 1 },
  json: { help: 'print one JSON object at the end, and nothing else on stdout' },
  detach: { help: 'return when they are started' },
} satisfies OptionTable;

type ForkOptions = OptionValues<typeof options>;

export function addFork(program: Command, context: Context): void {
  const command = program
    .command('fork')
    .description('fork a rollout at a step, with another model, message or observation')
    .argument('<rollout>', 'id of the rollout; it may still run');
  addOptions(command, options)
    .addHelpText(
      'after',
      `
Examples:
  rollouts fork rollout/nightly/restart-web/0 --at 3 --model openai/larger --base-url http://127.0.0.1:8000/v1
  rollouts fork rollout/nightly/restart-web/0 --at 3 --message "Look at the proxy first."
  echo 'disk is full' | rollouts fork rollout/nightly/restart-web/0 --at 3 --edit-observation 2.1=-

A fork is a rollout of its own. It starts with the files and the transcript as they were before the step, and asks no model
again for what is in that transcript. rollouts show says what it was forked from, which way, and what was edited. Without a
checkpoint before the step the way is replay: the task starts again, the calls before the step are repeated, and each must show
what it showed then.

Ctrl-C cancels and waits for the clean-up; a second one leaves at once. When the terminal is closed the forks keep running.

Exit codes: 0 all scored, 3 some are not, 2 bad usage, 130 left by Ctrl-C, 1 anything else.`,
    )
    .action((rolloutId: string, given: ForkOptions) => fork(context, rolloutId, given));
}

async function fork(context: Context, rolloutId: string, given: ForkOptions): Promise<void> {
  const edits = await readEdits(given.editObservation ?? []);
  const changes = toModelChanges(given);
  const rollouts = await connect(context.settings);
  const started = startForks(rollouts, {
    rolloutId,
    at: given.at,
    count: given.count,
    way: given.way,
    changes,
    message: given.message,
    edits,
    priceFile: context.settings.paths.prices,
  });
  // Listens before anything says that they have begun, so that a Ctrl-C right then stops them too.
  const stopListening = onInterrupts(context, async () => {
    const { rolloutIds } = await started;
    await Promise.allSettled(rolloutIds.map((id) => cancelRollout(rollouts, id)));
  });
  try {
    const { rolloutIds, chosen } = await started;
    for (const id of rolloutIds) context.note(`${id} continues by ${chosen.way}: ${chosen.why}`);
    if (given.detach) {
      if (given.json) context.print(JSON.stringify({ rolloutIds, way: chosen.way }));
      else for (const id of rolloutIds) context.print(id);
      return;
    }
    const rows = await followForks(context, rollouts, rolloutIds);
    printForks(context, rolloutId, rows, given);
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
  const report = toBatchReport(rows[0]?.batchId ?? '', rows, () => noResult);
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

/** Reads the texts of `CALL=FILE`, where the file `-` is stdin. @throws UsageError */
async function readEdits(args: string[]): Promise<{ call: string; text: string }[]> {
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
      throw new UsageError('--edit-observation: only one text can come from stdin; name a file');
    stdinTaken ||= file === '-';
    edits.push({ call, text: file === '-' ? await text(process.stdin) : await readText(file) });
  }
  return edits;
}

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw new UsageError(`--edit-observation: ${file} cannot be read: ${reasonOf(error)}`);
  }
}
