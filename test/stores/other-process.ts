import { execFile } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { build } from 'esbuild';

const root = resolve(__dirname, '../..');

/** A script that uses this project's TypeScript files, as one piece of JavaScript for another process. */
export async function bundled(script: string): Promise<string> {
  const built = await build({
    stdin: { contents: script, resolveDir: root, loader: 'ts' },
    bundle: true,
    platform: 'node',
    write: false,
  });
  return built.outputFiles[0]?.text ?? '';
}

/** Runs a script in a Node process of its own and returns what it prints. */
export async function runInProcess(script: string, args: string[]): Promise<string> {
  const code = await bundled(script);
  const { stdout } = await promisify(execFile)(process.execPath, ['-e', code, ...args]);
  return stdout;
}
