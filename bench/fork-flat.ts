import { statfsSync } from 'node:fs';
import type { DenvClient } from '../denv/client';
import { newKey, shellSandbox, withSandbox, type SandboxBench } from './context';
import { limitRow, median, ratioRow, timed } from './row';

const GB = 1024 ** 3;
const times = 8;

/** A live fork of a sandbox with much data against one with little. */
export const forkFlat: SandboxBench = {
  name: 'fork-flat',
  async run({ denv, dir, say }) {
    const free = statfsSync(dir);
    const sizeGb = free.bavail * free.bsize > 12 * GB ? 5 : 1;
    const notes = sizeGb === 5 ? [] : ['with 1 GB, since the disk has less than 12 GB free'];
    return withSandbox(denv, shellSandbox, (small) =>
      withSandbox(denv, shellSandbox, async (large) => {
        say(`writing ${sizeGb} GB into a sandbox`);
        await fill(denv, small.id, 1);
        await fill(denv, large.id, sizeGb * 1024);
        const ofSmall: number[] = [];
        const ofLarge: number[] = [];
        const pauses: number[] = [];
        await forkOnce(denv, large.id); // the first one flushes what was just written
        for (let n = 0; n < times; n += 1) {
          ofSmall.push((await forkOnce(denv, small.id)).ms);
          const fork = await forkOnce(denv, large.id);
          ofLarge.push(fork.ms);
          pauses.push(fork.pausedMs);
        }
        return [
          ratioRow(
            { name: 'fork-flat', what: `live fork with ${sizeGb} GB`, unit: 'ms', notes },
            ofLarge,
            { what: 'with 1 MB', values: ofSmall },
            1.5,
          ),
          limitRow(
            { name: 'fork-pause', what: 'the parent stands still for it', unit: 'ms' },
            median(pauses),
            50,
          ),
        ];
      }),
    );
  },
};

async function fill(denv: DenvClient, sandboxId: string, sizeMb: number): Promise<void> {
  const { exitCode, stderr } = await denv.exec(
    sandboxId,
    {
      argv: ['dd', 'if=/dev/zero', 'of=/workspace/data', 'bs=1M', `count=${sizeMb}`],
      timeoutS: 900,
    },
    { key: newKey('fill') },
  );
  if (exitCode !== 0) throw new Error(`could not write ${sizeMb} MB: ${stderr}`);
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
