import { spawn } from 'node:child_process';
import path from 'node:path';
import type { AttachedExec, ExecEnd, ExecSpec } from '../../denv/drivers/driver';

/** An exec of the fake driver on streams of this process. */
export function attachFakeExec(tree: string, spec: Omit<ExecSpec, 'stdin'>): AttachedExec {
  const [command, ...args] = spec.argv as [string, ...string[]]; // The contract asks for one at least.
  const env = { PATH: process.env.PATH, HOME: path.join(tree, 'home/agent'), ...spec.env };
  const child = spawn(command, args, { cwd: path.join(tree, spec.cwd), env, detached: true });
  const ended = new Promise<ExecEnd>((resolve) => {
    child.on('error', () => resolve({ kind: 'exited', exitCode: 127 }));
    child.on('exit', (code, signal) =>
      resolve(signal ? { kind: 'killed' } : { kind: 'exited', exitCode: code ?? 0 }),
    );
  });
  return {
    stdin: child.stdin,
    stdout: child.stdout,
    stderr: child.stderr,
    ended: () => ended,
    async end() {
      try {
        if (child.pid) process.kill(-child.pid, 'SIGKILL');
      } catch {
        // Nothing of its group is left.
      }
      await ended;
    },
  };
}
