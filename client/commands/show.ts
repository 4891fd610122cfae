import type { Command } from 'commander';
import type { Context } from '../context';
import { describeRollout } from '../api/describe';
import { descriptionLines } from '../reports/rollout';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = {
  json: { help: 'print one JSON object, with nothing cut' },
} satisfies OptionTable;

type ShowOptions = OptionValues<typeof options>;

export function addShow(program: Command, context: Context): void {
  const command = program
    .command('show')
    .description('show one rollout: its steps, verdict, evidence and lineage')
    .argument('<rollout>', 'id of the rollout, as in rollout/nightly/restart-web/0');
  addOptions(command, options)
    .addHelpText(
      'after',
      '\nExamples:\n  rollouts show rollout/nightly/restart-web/0\n  rollouts show rollout/nightly/restart-web/0 --json\n\nWithout a running stack it shows what is recorded.',
    )
    .action((rolloutId: string, given: ShowOptions) => show(context, rolloutId, given));
}

async function show(context: Context, rolloutId: string, { json }: ShowOptions): Promise<void> {
  const description = await describeRollout(context.settings, rolloutId);
  if (json) context.print(JSON.stringify(description));
  else for (const line of descriptionLines(description)) context.print(line);
}
