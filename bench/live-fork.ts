import { shellSandbox, withSandbox, type SandboxBench } from './context';
import { forkOnce } from './fork-flat';
import { ratioRow, timed } from './row';

const times = 12;

/** A live fork against a snapshot and a `runc run` of its tree. */
export const liveFork: SandboxBench = {
  name: 'live-fork',
  async run({ denv, bare }) {
    const base = await bare.base('fork-base', {});
    return withSandbox(denv, shellSandbox, async (sandbox) => {
      const ours: number[] = [];
      const bareMs: number[] = [];
      for (let n = 0; n < times; n += 1) {
        ours.push((await forkOnce(denv, sandbox.id)).ms);
        const id = `fork-${n}`;
        const { ms } = await timed(async () => {
          const tree = await bare.snapshot(base, id);
          await bare.run(id, tree, ['sleep', '1000']);
        });
        bareMs.push(ms);
        await bare.remove(id);
      }
      return [
        ratioRow(
          { name: 'live-fork', what: 'live fork of a running sandbox', unit: 'ms' },
          ours,
          { what: 'btrfs subvolume snapshot + runc run', values: bareMs },
          1.5,
        ),
      ];
    });
  },
};
