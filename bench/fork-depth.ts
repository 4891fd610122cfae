import type { DenvClient } from '../denv/client';
import { newKey, shellSandbox, withSandbox, type SandboxBench } from './context';
import { fill, forkOnce } from './fork-flat';
import { ratioRow } from './row';

/** A fork of a fork of a fork, and so on, against the first. */
export const forkDepth: SandboxBench = {
  name: 'fork-depth',
  async run({ denv, say, small }) {
    const depth = small ? 4 : 100;
    return withSandbox(denv, shellSandbox, async (first) => {
      await fill(denv, first.id, 'echo 0 > trail');
      say(`going ${depth} forks down`);
      const deep = await descend(denv, first.id, depth - 1);
      const ofFirst: number[] = [];
      const ofDeep: number[] = [];
      try {
        for (let round = 0; round < (small ? 2 : 12); round += 1) {
          ofFirst.push((await forkOnce(denv, first.id)).ms);
          ofDeep.push((await forkOnce(denv, deep)).ms);
        }
      } finally {
        await denv.deleteSandbox(deep);
      }
      return [
        ratioRow(
          { name: 'fork-depth', what: `live fork at depth ${depth}`, unit: 'ms' },
          ofDeep,
          { what: 'at depth 1', values: ofFirst },
          1.5,
        ),
      ];
    });
  },
};

/** The sandbox that many forks below `from`; those between are gone. */
async function descend(denv: DenvClient, from: string, forks: number): Promise<string> {
  let id = from;
  for (let n = 1; n <= forks; n += 1) {
    const [child] = (await denv.fork(id, {}, { key: newKey('depth') })).children;
    if (id !== from) await denv.deleteSandbox(id);
    if (!child || 'error' in child) throw new Error(`fork ${n} failed: ${child?.error.message}`);
    id = child.sandbox.id;
    await fill(denv, id, `echo ${n} >> trail`);
  }
  return id;
}
