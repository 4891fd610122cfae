import { newKey, shellSandbox, withSandbox, type SandboxBench } from './context';
import { fill } from './fork-flat';
import { ratioRow, timed } from './row';

/** Continuations from one checkpoint: from the command until the last of them runs, against the bare tools started at once. */
export const forkMany: SandboxBench = {
  name: 'fork-many',
  async run({ denv, bare, small }) {
    const count = small ? 2 : 16;
    const base = await bare.base('many-base', {});
    return withSandbox(denv, shellSandbox, async (sandbox) => {
      await fill(denv, sandbox.id, 'seq 100000 > data');
      const { id } = await denv.snapshot(sandbox.id, {}, { key: newKey('many') });
      const ours: number[] = [];
      const bareMs: number[] = [];
      for (let round = 0; round < (small ? 1 : 5); round += 1) {
        const { ms, value } = await timed(() =>
          denv.forkVersion(id, { count }, { key: newKey('many') }),
        );
        ours.push(ms);
        for (const child of value.children) {
          if ('error' in child) throw new Error(`a child failed: ${child.error.message}`);
          await denv.deleteSandbox(child.sandbox.id);
        }
        const names = Array.from({ length: count }, (_, n) => `many-${round}-${n}`);
        const other = await timed(() =>
          Promise.all(
            names.map(async (name) =>
              bare.run(name, await bare.snapshot(base, name), ['sleep', '1000']),
            ),
          ),
        );
        bareMs.push(other.ms);
        for (const name of names) await bare.remove(name);
      }
      return [
        ratioRow(
          { name: 'fork-many', what: `${count} continuations, until all run`, unit: 'ms' },
          ours,
          { what: 'btrfs subvolume snapshot + runc run, as many at once', values: bareMs },
          1.6,
        ),
      ];
    });
  },
};
