import type { Command } from 'commander';
import { TreeRefusedError } from '../../tasks/tree-tar';
import { connect } from '../api/connect';
import type { Rollouts } from '../api/connect';
import type { Context } from '../context';
import { UsageError } from '../errors';
import { onInterrupts } from '../follow/interrupts';
import { wholeNumberFrom } from './args';
import { awaitRegrade, dryRun, emptyReport, startRegrade } from '../api/regrade';
import type { RegradeReport } from '../api/regrade';
import { planRegrade } from '../api/regrade-plan';
import { regradeReportLines } from '../reports/regrade';
import { handle } from '../api/rollouts';
import { readStackState } from '../stack/state';
import { loadVerifier } from '../api/verifier-file';
import type { PackedVerifier } from '../api/verifier-file';

interface RegradeOptions {
  verifier?: string;
  onlyUnscored?: boolean;
  concurrency: number;
  diff?: boolean;
  dryRun?: boolean;
  json?: boolean;
}

export function addRegrade(program: Command, context: Context): void {
  program
    .command('regrade')
    .description('judge rollouts that have ended again, on what their agents left')
    .argument('<batch|rollout>', 'id of a batch, or of one rollout')
    .option('--verifier <file>', 'this one instead of the tasks’ own: YAML or JSON, see below')
    .option('--only-unscored', 'only those without a reward, as after a verifier that crashed')
    .option('--concurrency <n>', 'verifiers at once', wholeNumberFrom(1, 64), 8)
    .option('--diff', 'show only what turned')
    .option('--dry-run', 'show what would be judged, and start nothing')
    .option('--json', 'print one JSON object at the end, and nothing else on stdout')
    .addHelpText(
      'after',
      `
Examples:
  rollouts regrade nightly --verifier fixed.yaml --diff
  rollouts regrade nightly --only-unscored
  rollouts regrade rollout/nightly/restart-web/0 --dry-run

No agent runs and no model is asked: a verifier judges the snapshot that was taken when the rollout ended. Verdicts are added,
never replaced. The newest one that gave a reward counts from then on: list, show and watch have it, with the first one
beside it. A snapshot that has expired is named. The file has what a task has under \`verifier\`, files relative to it:

  image: host
  files: [{from: ./verify.sh, to: /verify/verify.sh}]
  command: [sh, /verify/verify.sh]
  collect: [/workspace/answer.txt]

Other graders beside a verifier count with what they said when the rollout ended. Ctrl-C stops it: what was judged stays.

Exit codes: 0 all judged, 3 some are not, 2 bad usage or a refused verifier, 1 anything else.`,
    )
    .action((target: string, options: RegradeOptions) => regrade(context, target, options));
}

async function regrade(context: Context, target: string, options: RegradeOptions): Promise<void> {
  const rollouts = await connect(context.settings);
  try {
    const plan = await planRegrade(rollouts, {
      target,
      onlyUnscored: options.onlyUnscored ?? false,
      verifier: await verifierOf(context, rollouts, options),
    });
    if (options.dryRun) return print(context, await dryRun(rollouts, plan), options);
    if (plan.judged.length === 0) return print(context, emptyReport(plan), options);
    const regradeId = await startRegrade(rollouts, plan, options.concurrency);
    const stop = onInterrupts(context, () => handle(rollouts, regradeId).cancel());
    context.note(`${regradeId}: ${plan.judged.length} rollouts to judge`);
    try {
      print(context, await awaitRegrade(rollouts, regradeId, plan), options);
    } finally {
      stop();
    }
  } finally {
    await rollouts.close();
  }
}

async function verifierOf(
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

function print(context: Context, report: RegradeReport, options: RegradeOptions): void {
  const shown = options.diff
    ? { ...report, rollouts: report.rollouts.filter(({ turned, why }) => turned || why !== null) }
    : report;
  if (options.json) context.print(JSON.stringify(shown));
  else for (const line of regradeReportLines(report, options)) context.print(line);
  const judgeable = options.dryRun
    ? report.rollouts.every(({ why }) => why === null)
    : report.judged === report.rollouts.length;
  context.exitWith(judgeable ? 0 : 3);
}
