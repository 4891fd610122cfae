import type { Command } from 'commander';
import type { Context } from '../context';
import type { Settings } from '../settings';
import { readStackState } from '../stack/state';
import type { StackState } from '../stack/state';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = { json: { help: 'print one JSON object' } } satisfies OptionTable;

type StatusOptions = OptionValues<typeof options>;

export function addStatus(program: Command, context: Context): void {
  const command = program
    .command('status')
    .description('show whether the stack runs, and at which addresses');
  addOptions(command, options)
    .addHelpText(
      'after',
      '\nExamples:\n  rollouts status\n  rollouts status --json\n\nExits 1 when the stack does not run.',
    )
    .action((given: StatusOptions) => status(context, given));
}

async function status(context: Context, { json }: StatusOptions): Promise<void> {
  const { settings, print } = context;
  const state = readStackState(settings.paths.run);
  if (json) print(JSON.stringify(state));
  else if (state) for (const line of stackLines(state, settings)) print(line);
  else
    print(`The stack of ${settings.paths.home} does not run. Start it with: rollouts up --detach`);
  if (!state?.ready) context.exitWith(1);
}

/** The stack as a person reads it. */
export function stackLines(state: StackState, settings: Settings): string[] {
  const services = state.services.map(({ name, state: now, pid, restarts, lastEnd }) => {
    const again = restarts > 0 ? `, started again ${restarts}× (last end: ${lastEnd})` : '';
    return `  ${name.padEnd(9)} ${now}${pid === null ? '' : `, pid ${pid}`}${again}`;
  });
  const ui = state.temporal.ui ? `, its web page ${state.temporal.ui}` : '';
  return [
    `Temporal    ${state.temporal.address}${ui}`,
    `denv server ${state.denv.address}`,
    `home        ${settings.paths.home}`,
    ...services,
  ];
}
