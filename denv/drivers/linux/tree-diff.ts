import { spawn } from 'node:child_process';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { DenvError } from '../../errors';
import type { TreeDiff } from '../driver';
import { findPython, runCommand } from '../host/programs';

const script = path.join(__dirname, 'treediff.py');
const limitS = 120;

/**
 * Files that differ between two frozen trees. It reads through both, in a process of its own.
 * @throws DenvError invalid_request when that takes too long, or a tree is too deep
 */
export async function diffTrees(a: string, b: string, limit: number): Promise<TreeDiff> {
  const child = spawn(findPython(), ['-I', '-S', '-B', script, a, b, `${limit}`], {
    cwd: '/',
    env: {},
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    child.kill('SIGKILL');
  }, limitS * 1000);
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject).on('close', resolve);
  });
  try {
    const [code, stdout, stderr] = await Promise.all([
      ended,
      text(child.stdout),
      text(child.stderr),
    ]);
    if (code === 0) return JSON.parse(stdout) as TreeDiff; // what treediff.py prints
    if (late) throw tooLarge(`not compared within ${limitS} s`);
    if (code === 1 && !stderr.startsWith('Traceback')) throw tooLarge(stderr.trim());
    throw new DenvError('internal', `comparing ${a} and ${b}: ${stderr.trim().slice(-500)}`);
  } finally {
    clearTimeout(timer);
  }
}

const tooLarge = (why: string): DenvError =>
  new DenvError('invalid_request', `these versions cannot be compared: ${why}`);

let measuring: Promise<unknown> = Promise.resolve();

/** Bytes of file content that no other tree shares. One tree at a time, since it reads through all of it. */
export function exclusiveBytes(tree: string): Promise<number | null> {
  const measured = measuring.then(() => measure(tree));
  measuring = measured;
  return measured;
}

async function measure(tree: string): Promise<number | null> {
  try {
    const lines = (await runCommand('btrfs', ['filesystem', 'du', '-s', '--raw', tree])).trimEnd();
    const exclusive = Number(lines.split('\n').at(-1)?.trim().split(/\s+/)[1]);
    return Number.isFinite(exclusive) ? exclusive : null;
  } catch {
    return null; // It was dropped meanwhile, or this btrfs cannot say.
  }
}
