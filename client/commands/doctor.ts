import type { Command } from 'commander';
import { connect } from '../api/connect';
import type { Context } from '../context';
import { checkMachine, checkStack } from '../doctor/checks';
import type { Check } from '../doctor/checks';
import { examineLedger } from '../doctor/ledger';
import type { Finding } from '../doctor/finding';
import { examineVersions, versionsWords } from '../doctor/versions';
import type { VersionsReport } from '../doctor/versions';
import { retentionRules } from './checkpoints';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

const options = {
  repair: { help: 'rebuild what the ledger lacks from workflow results and denv records' },
  json: { help: 'print one JSON object' },
} satisfies OptionTable;

type DoctorOptions = OptionValues<typeof options>;

export function addDoctor(program: Command, context: Context): void {
  const command = program
    .command('doctor')
    .description('find what is missing or disagrees, and say what to do');
  addOptions(command, options)
    .addHelpText(
      'after',
      '\nExamples:\n  rollouts doctor\n  rollouts doctor --repair\n\n--repair never changes a result that the ledger has, and removes no version. Exits 1 when something is left to do.',
    )
    .action((given: DoctorOptions) => doctor(context, given));
}

async function doctor(context: Context, given: DoctorOptions): Promise<void> {
  const repair = given.repair ?? false;
  const checks = [...checkMachine(context.settings), ...(await checkStack(context.settings))];
  const { findings, versions } = await examine(context, checks, repair);
  if (given.json) {
    context.print(JSON.stringify({ checks, findings, versions }));
  } else {
    for (const line of checkLines(checks)) context.print(line);
    context.print(versionsLine(versions));
    for (const line of findingLines(findings, repair)) context.print(line);
  }
  const left =
    checks.some(({ ok }) => ok === false) || (findings ?? []).some((f) => f.repaired === null);
  if (left) context.exitWith(1);
}

interface Examined {
  findings: Finding[] | null;
  versions: VersionsReport | null;
}

/** Compares the ledger with Temporal and the denv server; nulls when one of them does not answer. */
async function examine(context: Context, checks: Check[], repair: boolean): Promise<Examined> {
  const answering = ['Temporal', 'denv server'].every((name) =>
    checks.some((check) => check.name === name && check.ok === true),
  );
  if (!answering) return { findings: null, versions: null };
  const rules = retentionRules(context);
  const rollouts = await connect(context.settings);
  try {
    const findings = await examineLedger(rollouts, repair);
    return { findings, versions: await examineVersions(rollouts, rules, new Date()) };
  } finally {
    await rollouts.close();
  }
}

function versionsLine(versions: VersionsReport | null): string {
  const name = 'versions'.padEnd(17);
  if (versions === null) return `-    ${name} not looked at: the stack does not answer`;
  return `${(versions.overBytes === 0 ? 'ok' : '-').padEnd(4)} ${name} ${versionsWords(versions)}`;
}

function checkLines(checks: Check[]): string[] {
  return checks.flatMap(({ name, ok, detail, remedy }) => {
    const mark = ok === null ? '-' : ok ? 'ok' : 'BAD';
    const line = `${mark.padEnd(4)} ${name.padEnd(17)} ${detail}`;
    return remedy === null ? [line] : [line, `     ${' '.repeat(17)} → ${remedy}`];
  });
}

function findingLines(findings: Finding[] | null, repair: boolean): string[] {
  if (findings === null) return ['-    ledger            not compared: the stack does not answer'];
  if (findings.length === 0)
    return ['ok   ledger            agrees with Temporal and the denv server'];
  const lines = findings.map(({ rolloutId, what, repaired }) => {
    const mark = repaired === null ? 'BAD' : 'ok';
    return `${mark.padEnd(4)} ledger            ${rolloutId} ${what}${repaired === null ? '' : `; ${repaired}`}`;
  });
  return repair ? lines : [...lines, '                       → rollouts doctor --repair'];
}
