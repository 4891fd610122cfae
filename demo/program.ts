import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { reasonOf, UsageError, UserError } from '../client/errors';
import { settingsFrom } from '../client/settings';
import type { Settings } from '../client/settings';
import { withStack } from './stack';
import type { DemoStack } from './stack';

/** What a demo is given to run on. */
export interface DemoRun {
  stack: DemoStack;
  settings: Settings;
  /** The folder of its example. */
  example: string;
  say: (line: string) => void;
  /** How a person of this home writes `rollouts`. */
  command: string;
}

/** What a demo came to. */
export interface DemoOutcome {
  report: object;
  lines: string[];
  /** Where it came to something else than it should, a line each. */
  surprises: string[];
}

export interface DemoProgram<Flag extends string> {
  usage: string;
  /** Its folder in examples/. */
  example: string;
  /** Its options beside --json and --help. */
  flags: readonly Flag[];
  run(run: DemoRun, given: Partial<Record<Flag, boolean>>): Promise<DemoOutcome>;
}

/** The process that a demo runs in. */
export interface DemoProcess {
  args: string[];
  env: NodeJS.ProcessEnv;
  print: (line: string) => void;
  note: (line: string) => void;
}

/** Runs a demo on the stack of this home, or on one of its own, and returns its exit code. */
export async function runDemo<Flag extends string>(
  program: DemoProgram<Flag>,
  { args, env, print, note }: DemoProcess,
): Promise<number> {
  try {
    const given = parseOptions(args, ['json', 'help', ...program.flags]);
    if (given.help) {
      print(program.usage);
      return 0;
    }
    const began = Date.now();
    const settings = settingsFrom(env);
    const command = env['ROLLOUTS_HOME']
      ? `ROLLOUTS_HOME=${settings.paths.home} bin/rollouts`
      : 'bin/rollouts';
    const example = join(__dirname, '../..', 'examples', program.example);
    const { report, lines, surprises } = await withStack(settings, env, note, (stack) =>
      program.run({ stack, settings, example, say: note, command }, given),
    );
    for (const line of ['', ...lines, '']) print(line);
    for (const surprise of surprises) print(`NOT AS IT SHOULD BE: ${surprise}`);
    print(`${((Date.now() - began) / 1000).toFixed(0)} s`);
    if (given.json) print(JSON.stringify(report));
    return surprises.length === 0 ? 0 : 1;
  } catch (error) {
    if (error instanceof UsageError) {
      note(`${error.message}\n\n${program.usage}`);
      return 2;
    }
    const stack = error instanceof Error ? error.stack : undefined;
    note(error instanceof UserError ? error.message : (stack ?? reasonOf(error)));
    return 1;
  }
}

/** @throws UsageError for an option that the program does not have */
function parseOptions<Flag extends string>(
  args: string[],
  flags: readonly Flag[],
): Partial<Record<Flag, boolean>> {
  const options = Object.fromEntries(flags.map((flag) => [flag, { type: 'boolean' as const }]));
  try {
    return parseArgs({ args, options }).values as Partial<Record<Flag, boolean>>; // each is one of `flags`
  } catch (error) {
    throw new UsageError(reasonOf(error));
  }
}
