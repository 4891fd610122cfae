import type { Command } from 'commander';
import { connect } from '../api/connect';
import type { Context } from '../context';
import { checkMachine, checkStack } from '../doctor/checks';
import type { Check } from '../doctor/checks';
import { examineLedger } from '../doctor/ledger';
import type { Finding } from '../doctor/finding';
import { examineVersions, versionsWords } from '../doctor/versions';
import type { VersionsReport } from '../doctor/versions';
import { rulesOf } from './checkpoints';

interface DoctorOptions {
  repair?: boolean;
  json?: boolean;
}

export function addDoctor(program: Command, context: Context): void {
  program
    .command('doctor')
    .description('look for what is missing or does not agree, and say what to do')
    .option('--repair', 'rebuild what the ledger lacks from workflow results and denv records')
    .option('--json', 'print one JSON object')
    .addHelpText(
      'after',
      '\nExamples:\n  rollouts doctor\n  rollouts doctor --repair\n\nA result that the ledger has is never changed, and no version is removed. Exits 1 when something is left to do.',
    )
    .action((options: DoctorOptions) => doctor(context, options));
}

async function doctor(context: Context, options: DoctorOptions): Promise<void> {
  const checks = [...checkMachine(context.settings), ...(await checkStack(context.settings))];
  const { findings, versions } = await examine(context, checks, options.repair ?? false);
  if (options.json) {
    context.print(JSON.stringify({ checks, findings, versions }));
  } else {
    for (const line of checkLines(checks)) context.print(line);
    context.print(versionsLine(versions));
    for (const line of findingLines(findings, options.repair ?? false)) context.print(line);
  }
  const left =
    checks.some(({ ok }) => ok === false) || (findings ?? []).some((f) => f.repaired === null);
  if (left) context.exitWith(1);
}

interface Examined {
  findings: Finding[] | null;
  versions: VersionsReport | null;
}

/** Nothing when the ledger cannot be compared: it takes Temporal and the denv server to answer. */
async function examine(context: Context, checks: Check[], repair: boolean): Promise<Examined> {
  const answering = ['Temporal', 'denv server'].every((name) =>
    checks.some((check) => check.name === name && check.ok === true),
  );
  if (!answering) return { findings: null, versions: null };
  const rules = rulesOf(context);
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
