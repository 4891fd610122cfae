import { statfsSync } from 'node:fs';
import type { DenvClient } from '../denv/client';
import { newKey, shellSandbox, type SandboxBench } from './context';
import { limitRow, median, ratioRow, timed, type Row } from './row';

const GB = 1024 ** 3;

interface Times {
  ms: number[];
  pausedMs: number[];
}

/** A live fork of a sandbox with much data, or many files, against one with little. */
export const forkFlat: SandboxBench = {
  name: 'fork-flat',
  async run({ denv, dir, say, small }) {
    const free = statfsSync(dir);
    const roomy = free.bavail * free.bsize > 14 * GB;
    const sizesMb = small ? [1, 8, 16] : roomy ? [1, 1024, 5 * 1024] : [1, 1024];
    const counts = small ? [10, 100] : [1000, 100_000];
    const notes = small || roomy ? [] : ['not with 5 GB: the disk has less than 14 GB free'];
    const bySize = await forksOf(denv, say, sizesMb, small, (sizeMb) => ({
      what: `${sizeMb} MB`,
      script: `dd if=/dev/zero of=data bs=1M count=${sizeMb}`,
    }));
    const byCount = await forksOf(denv, say, counts, small, (count) => ({
      what: `${count} files`,
      script: `mkdir files && cd files && seq ${count} | split -l 1 -a 5`,
    }));
    const pauses = [...bySize, ...byCount].map(({ pausedMs }) => median(pausedMs));
    return [
      ...flatRows(sizesMb, bySize, (size) => nameOfSize(size), notes),
      ...flatRows(counts, byCount, (count) => `${count} files`, []),
      limitRow(
        {
          name: 'fork-pause',
          what: 'the parent stands still for it, where it is longest',
          unit: 'ms',
        },
        Math.max(...pauses),
        50,
      ),
    ];
  },
};

function flatRows(
  amounts: number[],
  times: Times[],
  named: (amount: number) => string,
  notes: string[],
): Row[] {
  const [least, ...others] = amounts.map((amount, n) => ({ amount, ms: times[n]?.ms ?? [] }));
  if (!least) return [];
  return others.map(({ amount, ms }) =>
    ratioRow(
      { name: 'fork-flat', what: `live fork with ${named(amount)}`, unit: 'ms', notes },
      ms,
      { what: `with ${named(least.amount)}`, values: least.ms },
      1.5,
    ),
  );
}

const nameOfSize = (sizeMb: number): string =>
  sizeMb < 1024 ? `${sizeMb} MB` : `${sizeMb / 1024} GB`;

/** Forks of sandboxes with these amounts of something, taken in turns so that all see the same machine. */
async function forksOf(
  denv: DenvClient,
  say: (line: string) => void,
  amounts: number[],
  small: boolean,
  contentOf: (amount: number) => { what: string; script: string },
): Promise<Times[]> {
  const sandboxes: string[] = [];
  try {
    for (const amount of amounts) {
      const { what, script } = contentOf(amount);
      say(`a sandbox with ${what}`);
      const { id } = await denv.createSandbox(shellSandbox, { key: newKey('flat') });
      sandboxes.push(id);
      await fill(denv, id, script);
      await forkOnce(denv, id); // the first one flushes what was just written
    }
    const times = amounts.map((): Times => ({ ms: [], pausedMs: [] }));
    for (let round = 0; round < (small ? 2 : 12); round += 1) {
      for (const [n, id] of sandboxes.entries()) {
        const { ms, pausedMs } = await forkOnce(denv, id);
        times[n]?.ms.push(ms);
        times[n]?.pausedMs.push(pausedMs);
      }
    }
    return times;
  } finally {
    for (const id of sandboxes) await denv.deleteSandbox(id);
  }
}

/** Runs a script in a sandbox's working directory. */
export async function fill(denv: DenvClient, sandboxId: string, script: string): Promise<void> {
  const { exitCode, stderr } = await denv.exec(
    sandboxId,
    { argv: ['sh', '-c', script], timeoutS: 900 },
    { key: newKey('fill') },
  );
  if (exitCode !== 0) throw new Error(`could not run ${script}: ${stderr}`);
}

/** One child, made and removed; the time is that of the making. */
export async function forkOnce(
  denv: DenvClient,
  sandboxId: string,
): Promise<{ ms: number; pausedMs: number }> {
  const { ms, value } = await timed(() => denv.fork(sandboxId, {}, { key: newKey('fork') }));
  const [child] = value.children;
  if (!child || 'error' in child) {
    throw new Error(`the fork of ${sandboxId} failed: ${child?.error.message ?? 'no child'}`);
  }
  await denv.deleteSandbox(child.sandbox.id);
  return { ms, pausedMs: value.pausedMs ?? 0 };
}
