import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { reasonOf, toUserError } from '../client/errors';
import { settingsFrom } from '../client/settings';
import { exploreDemo } from './explore-demo';
import { exploreLines, exploreSurprises } from './explore-lines';
import { withStack } from './stack';

const usage = `npm run demo:explore [-- OPTIONS]

  --json  one JSON object as the last line

Exits 0 when the search found the step that went wrong and reached reward 1 with at most half of the model calls of independent
rollouts, 1 otherwise, 2 for bad usage.`;

const example = join(__dirname, '../..', 'examples/maze');

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
  const report = await withStack(settings, process.env, say, (stack) =>
    exploreDemo(stack, settings, example, say),
  );
  const wrong = exploreSurprises(report);
  const lines = [...exploreLines(report, command), '', ...wrong.map(notAsItShould)];
  for (const line of ['', ...lines]) console.log(line);
  console.log(`${((Date.now() - began) / 1000).toFixed(0)} s`);
  if (options.json) console.log(JSON.stringify(report));
  return wrong.length === 0 ? 0 : 1;
}

const notAsItShould = (what: string): string => `NOT AS IT SHOULD BE: ${what}`;

function optionsOf(args: string[]) {
  try {
    return parseArgs({
      args,
      options: { json: { type: 'boolean' }, help: { type: 'boolean' } },
    }).values;
  } catch (error) {
    console.error(`${reasonOf(error)}\n\n${usage}`);
    return null;
  }
}
