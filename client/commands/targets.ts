import type { Command } from 'commander';
import type { Target } from '../../contracts/denv';
import { connectDenv } from '../api/connect';
import type { Context } from '../context';
import { tableLines } from '../reports/table';
import { runtimeKinds } from '../runtimes';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = { json: { help: 'print one JSON object' } } satisfies OptionTable;

type TargetsOptions = OptionValues<typeof options>;

export function addTargets(program: Command, context: Context): void {
  const command = program
    .command('targets')
    .description('show where sandboxes can run, what each place can do, and which runtime uses it');
  addOptions(command, options)
    .addHelpText(
      'after',
      '\nExamples:\n  rollouts targets\n  rollouts targets --json\n\nThe denv server tries each ability on its own host; `-` marks what did not work there.',
    )
    .action((given: TargetsOptions) => targets(context, given));
}

async function targets({ settings, print }: Context, { json }: TargetsOptions): Promise<void> {
  const { targets: rows } = await connectDenv(settings).targets();
  const runtimes = runtimeKinds.map((kind) => {
    const { name, syntax, target, what } = kind;
    return { name, syntax, target, what, missing: kind.missing() ?? missingFor(target, rows) };
  });
  if (json) return print(JSON.stringify({ targets: rows, runtimes }));
  for (const line of targetLines(rows)) print(line);
  print('');
  const cells = runtimes.map(({ name, target, missing }) => [
    name,
    target ?? '-',
    missing === null ? 'works' : `missing: ${missing}`,
  ]);
  for (const line of tableLines(['runtime', 'target', ''], cells)) print(line);
}

function missingFor(target: string | null, rows: Target[]): string | null {
  const row = rows.find(({ name }) => name === target);
  return row ? row.missing : 'this denv server has no such target';
}

/** Returns the targets side by side: there are few of them, and many abilities. */
export function targetLines(rows: Target[]): string[] {
  const yes = (value: boolean) => (value ? 'yes' : '-');
  const abilities: [string, (row: Target) => string][] = [
    ['works', ({ missing }) => yes(missing === null)],
    ['fork', ({ fork }) => (fork === 'none' ? '-' : fork)],
    ['memory fork', ({ memoryFork }) => yes(memoryFork)],
    ['separate verify', ({ separateVerify }) => yes(separateVerify)],
    ['egress deny', ({ egressDeny }) => yes(egressDeny)],
    ['cap cpus', ({ caps }) => yes(caps.cpus)],
    ['cap memory', ({ caps }) => yes(caps.memoryMb)],
    ['cap processes', ({ caps }) => yes(caps.pids)],
    ['cap disk', ({ caps }) => yes(caps.diskMb)],
    ['gpu', ({ gpu }) => yes(gpu)],
    ['exec', ({ exec }) => yes(exec)],
    ['stdio controllers', ({ stdio }) => yes(stdio)],
    ['publish ports', ({ publish }) => yes(publish)],
    ['attach', ({ attach }) => yes(attach)],
    ['user namespaces', ({ userNamespaces }) => yes(userNamespaces)],
    ['images', ({ images }) => images.join(', ') || '-'],
  ];
  const table = tableLines(
    ['', ...rows.map(({ name }) => name)],
    abilities.map(([what, cell]) => [what, ...rows.map(cell)]),
  );
  const remarks = rows.flatMap(({ name, missing, notes }) => [
    ...(missing === null ? [] : [`${name}: nothing can be placed there now: ${missing}`]),
    ...notes.map((note) => `${name}: ${note}`),
  ]);
  return [...table, ...(remarks.length > 0 ? ['', ...remarks] : [])];
}
