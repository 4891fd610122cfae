import { spawn } from 'node:child_process';

/** Runs a program to its end and returns its stdout. @throws Error with its stderr when it exits non-zero */
export function command(...argv: [string, ...string[]]): Promise<string> {
  const [program, ...args] = argv;
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (data: Buffer) => (stdout += data.toString()));
    child.stderr.on('data', (data: Buffer) => (stderr += data.toString()));
    child.once('error', reject);
    child.once('close', (code) => {
      if (code === 0) resolve(stdout);
      else reject(new Error(`${argv.join(' ')} exited ${code}: ${stderr.trim()}`));
    });
  });
}

/** Like `command`, with no pipe to a process that outlives it. */
export function commandWithoutPipes(...argv: [string, ...string[]]): Promise<void> {
  const [program, ...args] = argv;
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: 'ignore' });
    child.once('error', reject);
    child.once('exit', (code) => {
      if (code === 0) resolve();
      else reject(new Error(`${argv.join(' ')} exited ${code}`));
    });
  });
}
