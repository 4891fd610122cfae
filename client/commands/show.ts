import type { Command } from 'commander';
import type { Context } from '../context';
import { describeRollout } from '../api/describe';
import { descriptionLines } from '../reports/rollout';

export function addShow(program: Command, context: Context): void {
  program
    .command('show')
    .description('show one rollout: its steps, verdict, evidence and lineage')
    .argument('<rollout>', 'id of the rollout, as in rollout/nightly/restart-web/0')
    .option('--json', 'print one JSON object, nothing cut')
    .addHelpText(
      'after',
      '\nExamples:\n  rollouts show rollout/nightly/restart-web/0\n  rollouts show rollout/nightly/restart-web/0 --json\n\nWithout a running stack it shows what is recorded.',
    )
    .action((rolloutId: string, options: { json?: boolean }) => show(context, rolloutId, options));
}

async function show(
  context: Context,
  rolloutId: string,
  options: { json?: boolean },
): Promise<void> {
  const description = await describeRollout(context.settings, rolloutId);
  if (options.json) context.print(JSON.stringify(description));
  else for (const line of descriptionLines(description)) context.print(line);
}
