import { demo, demoLines, surprises } from './demo';
import { killDemo, killLines, killSurprises } from './kill-demo';
import { runDemo } from './program';
import type { DemoProgram } from './program';

const program: DemoProgram<'kill-worker'> = {
  usage: `npm run demo [-- OPTIONS]

  --json         print one JSON object as the last line
  --kill-worker  kill -9 the worker and the denv server in the middle of their work

Exits 0 when all came out as it should, 1 otherwise, 2 for bad usage.`,
  example: 'incident',
  flags: ['kill-worker'],
  async run({ stack, settings, example, say, command }, given) {
    if (given['kill-worker']) {
      const report = await killDemo(stack, settings, example, say);
      return { report, lines: killLines(report, command), surprises: killSurprises(report) };
    }
    const report = await demo(stack, settings, example, say);
    return { report, lines: demoLines(report, command), surprises: surprises(report) };
  },
};

void runDemo(program, {
  args: process.argv.slice(2),
  env: process.env,
  print: (line) => console.log(line),
  note: (line) => console.error(line),
}).then((status) => (process.exitCode = status));
