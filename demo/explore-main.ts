import { exploreDemo } from './explore-demo';
import { exploreLines, exploreSurprises } from './explore-lines';
import { runDemo } from './program';
import type { DemoProgram } from './program';

const program: DemoProgram<never> = {
  usage: `npm run demo:explore [-- OPTIONS]

  --json  print one JSON object as the last line

Exits 0 when the search found the step that went wrong and reached reward 1 with at most half of the model calls of independent
rollouts, 1 otherwise, 2 for bad usage.`,
  example: 'maze',
  flags: [],
  async run({ stack, settings, example, say, command }) {
    const report = await exploreDemo(stack, settings, example, say);
    return { report, lines: exploreLines(report, command), surprises: exploreSurprises(report) };
  },
};

void runDemo(program, {
  args: process.argv.slice(2),
  env: process.env,
  print: (line) => console.log(line),
  note: (line) => console.error(line),
}).then((status) => (process.exitCode = status));
