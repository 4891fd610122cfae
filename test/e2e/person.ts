import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';

export interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

export interface Running {
  child: ChildProcess;
  /** Resolves once stderr has said it. */
  says(text: string): Promise<void>;
  ended: Promise<Ended>;
}

/** Also from where the tests are compiled to. */
export const projectRoot = rootAbove(__dirname);

function rootAbove(folder: string): string {
  return existsSync(join(folder, 'package.json')) ? folder : rootAbove(dirname(folder));
}

/** Starts a program of this project as a person would, with a home of its own. */
export function start(home: string, program: string, ...args: string[]): Running {
  const env: NodeJS.ProcessEnv = { ...process.env, ROLLOUTS_HOME: home };
  for (const name of ['TEMPORAL_ADDRESS', 'DENV_SERVER', 'DENV_API_KEY']) delete env[name];
  const child = spawn(join(projectRoot, program), args, { cwd: projectRoot, env, stdio: 'pipe' });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (data: Buffer) => (stdout += data.toString()));
  child.stderr.on('data', (data: Buffer) => (stderr += data.toString()));
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => resolve({ code, stdout, stderr }));
  });
  const heard = (text: string) =>
    new Promise<void>((resolve) => {
      const listen = () => {
        if (!stderr.includes(text)) return;
        child.stderr.off('data', listen);
        resolve();
      };
      child.stderr.on('data', listen);
      listen();
    });
  const never = (text: string) =>
    ended.then((end) => {
      throw new Error(`${program} ended without saying ${text}:\n${end.stdout}\n${end.stderr}`);
    });
  return { child, says: (text) => Promise.race([heard(text), never(text)]), ended };
}

/** Runs it to its end. */
export const run = (home: string, program: string, ...args: string[]): Promise<Ended> =>
  start(home, program, ...args).ended;

export const lastLine = (text: string): string => text.trimEnd().split('\n').at(-1) ?? '';
