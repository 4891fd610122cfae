import { runDemo } from '../../demo/program';
import type { DemoProgram } from '../../demo/program';

const program: DemoProgram<'fast'> = {
  usage: 'npm run demo:nothing',
  example: 'nothing',
  flags: ['fast'],
  run: () => Promise.reject(new Error('it must not run')),
};

async function run(...args: string[]) {
  const out: string[] = [];
  const err: string[] = [];
  const code = await runDemo(program, {
    args,
    env: {},
    print: (line) => out.push(line),
    note: (line) => err.push(line),
  });
  return { code, out, err: err.join('\n') };
}

describe('the program of a demo', () => {
  it('refuses an option that it does not know, and says what it takes', async () => {
    const { code, out, err } = await run('--quick');

    expect({ code, out }).toEqual({ code: 2, out: [] });
    expect(err).toContain("Unknown option '--quick'");
    expect(err).toContain('npm run demo:nothing');
  });

  it('explains itself, and starts nothing', async () => {
    expect(await run('--fast', '--help')).toEqual({ code: 0, out: [program.usage], err: '' });
  });
});
