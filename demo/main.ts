import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { BatchReport } from '../contracts/batch';
import { reasonOf, toUserError } from '../client/errors';
import { settingsFrom } from '../client/settings';
import { demo, demoLines, surprises } from './demo';
import { killDemo, killLines, killSurprises } from './kill-demo';
import { withStack } from './stack';

const usage = `npm run demo [-- OPTIONS]

  --json         one JSON object as the last line
  --kill-worker  kill -9 the worker and the denv server in the middle of their work

Exits 0 when all came out as it should, 1 otherwise, 2 for bad usage.`;

const example = join(__dirname, '../..', 'examples/incident');

main().then(
  (status) => (process.exitCode = status),
  (error: unknown) => {
    console.error(toUserError(error)?.message ?? error);
    process.exitCode = 1;
  },
);

async function main(): Promise<number> {
  const options = optionsOf(process.argv.slice(2));
  if (options === null) return 2;
  if (options.help) {
    console.log(usage);
    return 0;
  }
  const began = Date.now();
  const settings = settingsFrom(process.env);
  const say = (line: string): void => console.error(line);
  const command = process.env['ROLLOUTS_HOME']
    ? `ROLLOUTS_HOME=${settings.paths.home} bin/rollouts`
    : 'bin/rollouts';
  const [report, lines, wrong] = await withStack(
    settings,
    process.env,
    say,
    async (stack): Promise<[BatchReport, string[], string[]]> => {
      if (options['kill-worker']) {
        const killed = await killDemo(stack, settings, example, say);
        return [killed, killLines(killed, command), killSurprises(killed)];
      }
      const done = await demo(stack, settings, example, say);
      return [done, demoLines(done, command), surprises(done)];
    },
  );
  for (const line of ['', ...lines, '', ...wrong.map((what) => `NOT AS IT SHOULD BE: ${what}`)]) {
    console.log(line);
  }
  console.log(`${((Date.now() - began) / 1000).toFixed(0)} s`);
  if (options.json) console.log(JSON.stringify(report));
  return wrong.length === 0 ? 0 : 1;
}

function optionsOf(args: string[]) {
  try {
    return parseArgs({
      args,
      options: {
        json: { type: 'boolean' },
        'kill-worker': { type: 'boolean' },
        help: { type: 'boolean' },
      },
    }).values;
  } catch (error) {
    console.error(`${reasonOf(error)}\n\n${usage}`);
    return null;
  }
}
