import type { Command } from 'commander';
import { TreeRefusedError } from '../../tasks/tree-tar';
import { connect } from '../api/connect';
import type { Rollouts } from '../api/connect';
import type { Context } from '../context';
import { UsageError } from '../errors';
import { onInterrupts } from '../follow/interrupts';
import { wholeNumberFrom } from './args';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';
import { awaitRegrade, dryRun, emptyReport, startRegrade } from '../api/regrade';
import type { RegradeReport } from '../api/regrade';
import { planRegrade } from '../api/regrade-plan';
import { regradeReportLines } from '../reports/regrade';
import { handle } from '../api/rollouts';
import { readStackState } from '../stack/state';
import { loadVerifier } from '../api/verifier-file';
import type { PackedVerifier } from '../api/verifier-file';

const options = {
  verifier: {
    takes: '<file>',
    help: 'a verifier in place of the tasks\u2019 own: YAML or JSON, see below',
  },
  onlyUnscored: { help: 'only rollouts without a reward, as after a verifier that crashed' },
  concurrency: {
    takes: '<n>',
    help: 'most verifiers at once',
    parse: wholeNumberFrom(1, 64),
    default: 8,
  },
  diff: { help: 'show only the rewards that changed' },
  dryRun: { help: 'show what would be verified, and start nothing' },
  json: { help: 'print one JSON object at the end, and nothing else on stdout' },
} satisfies OptionTable;

type RegradeOptions = OptionValues<typeof options>;

export function addRegrade(program: Command, context: Context): void {
  const command = program
    .command('regrade')
    .description('verify ended rollouts again, on what their agents left')
    .argument('<batch|rollout>', 'name of a batch, or id of one rollout');
  addOptions(command, options)
    .addHelpText(
      'after',
      `
Examples:
  rollouts regrade nightly --verifier fixed.yaml --diff
  rollouts regrade nightly --only-unscored
  rollouts regrade rollout/nightly/restart-web/0 --dry-run

No agent runs and no model is asked: a verifier runs on the snapshot that was taken when the rollout ended. Verdicts are added,
never replaced. The newest verdict with a reward is the current one: list, show and watch give it, with the first one beside it.
Rollouts whose snapshot has expired are listed as such. The file has what a task has under \`verifier\`, and its paths are
relative to the file:

  image: host
  files: [{from: ./verify.sh, to: /verify/verify.sh}]
  command: [sh, /verify/verify.sh]
  collect: [/workspace/answer.txt]

A task's other graders are not run again: their first grades count. Ctrl-C stops the regrade, and the verdicts it has stay.

Exit codes: 0 all verified, 3 some are not, 2 bad usage or a refused verifier, 1 anything else.`,
    )
    .action((target: string, given: RegradeOptions) => regrade(context, target, given));
}

async function regrade(context: Context, target: string, given: RegradeOptions): Promise<void> {
  const rollouts = await connect(context.settings);
  try {
    const plan = await planRegrade(rollouts, {
      target,
      onlyUnscored: given.onlyUnscored ?? false,
      verifier: await readVerifier(context, rollouts, given),
    });
    if (given.dryRun) return print(context, await dryRun(rollouts, plan), given);
    if (plan.judged.length === 0) return print(context, emptyReport(plan), given);
    const regradeId = await startRegrade(rollouts, plan, given.concurrency);
    const stop = onInterrupts(context, () => handle(rollouts, regradeId).cancel());
    context.note(`${regradeId}: ${plan.judged.length} rollouts to verify`);
    try {
      print(context, await awaitRegrade(rollouts, regradeId, plan), given);
    } finally {
      stop();
    }
  } finally {
    await rollouts.close();
  }
}

async function readVerifier(
  { settings }: Context,
  { blobs }: Rollouts,
  { verifier }: RegradeOptions,
): Promise<PackedVerifier | null> {
  if (verifier === undefined) return null;
  const places = {
    imagesAreHere: settings.denvServer === null,
    imageDirs: readStackState(settings.paths.run)?.denv.imageDirs ?? undefined,
  };
  try {
    return await loadVerifier(verifier, places, blobs);
  } catch (error) {
    if (error instanceof TreeRefusedError) throw new UsageError(error.message);
    throw error;
  }
}

function print(context: Context, report: RegradeReport, given: RegradeOptions): void {
  const shown = given.diff
    ? { ...report, rollouts: report.rollouts.filter(({ turned, why }) => turned || why !== null) }
    : report;
  if (given.json) context.print(JSON.stringify(shown));
  else for (const line of regradeReportLines(report, given)) context.print(line);
  const whole = given.dryRun
    ? report.rollouts.every(({ why }) => why === null)
    : report.judged === report.rollouts.length;
  context.exitWith(whole ? 0 : 3);
}
