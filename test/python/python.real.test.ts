import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { API_KEY, ServerProcess } from '../denv/server-process';

const folder = resolve(__dirname, '../../python');
const python = resolve(__dirname, '../../.hud/venv/bin/python');
/** Where the system's Python is none of HUD's, no environment runs in a sandbox of image `host`. */
const sandboxed = existsSync(resolve(__dirname, '../../.hud/packages'));
const server = new ServerProcess();

interface Outcome {
  code: number | null;
  output: string;
  ran: number;
  skipped: number;
}

function runTests(module: string): Promise<Outcome> {
  const child = spawn(python, ['-m', 'unittest', '-v', `tests.${module}`], {
    cwd: folder,
    env: { ...process.env, DENV_SERVER: server.address, DENV_API_KEY: API_KEY, HUD_API_KEY: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (data: Buffer) => said.push(data));
  }
  return new Promise((done, failed) => {
    child.on('error', failed).on('close', (code) => {
      const output = Buffer.concat(said).toString();
      const count = (pattern: RegExp) => Number(pattern.exec(output)?.[1] ?? 0);
      done({ code, output, ran: count(/^Ran (\d+) tests?/m), skipped: count(/skipped=(\d+)/) });
    });
  });
}

const there = existsSync(python);
const title = there ? '' : ' (left out: scripts/setup-hud has not made .hud/venv)';

(there ? describe : describe.skip)(`the Python package, on a real server${title}`, () => {
  beforeAll(() => server.start(), 60_000);
  afterAll(() => server.end(), 60_000);

  // At least so many ran: a module that found no server would skip its tests and be content.
  test.each([
    ['test_trees', 3],
    ['test_client', 11],
    ['test_attach', 4],
    ['test_hud', sandboxed ? 14 : 1],
  ])(
    '%s passes',
    async (module, atLeast) => {
      const { code, output, ran, skipped } = await runTests(module);

      if (code !== 0) throw new Error(output.slice(-8000));
      expect(ran - skipped).toBeGreaterThanOrEqual(atLeast);
      expect(await server.client.listSandboxes()).toEqual({ sandboxes: [] });
    },
    1_200_000,
  );
});
