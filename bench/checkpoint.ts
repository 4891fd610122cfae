import { newKey, shellSandbox, withSandbox, type SandboxBench } from './context';
import { limitRow, median, timed } from './row';

const times = 12;
const dirty = ['dd', 'if=/dev/urandom', 'of=/workspace/dirty', 'bs=1M', 'count=10', 'status=none'];

/** What `snapshot: before` adds to a call, with 10 MB that were just written. */
export const checkpoint: SandboxBench = {
  name: 'checkpoint',
  run: ({ denv }) =>
    withSandbox(denv, shellSandbox, async (sandbox) => {
      const plain: number[] = [];
      const added: number[] = [];
      const flushes: number[] = [];
      for (let n = 0; n < times; n += 1) {
        const key = () => ({ key: newKey('checkpoint') });
        await denv.exec(sandbox.id, { argv: dirty }, key());
        const without = await timed(() => denv.exec(sandbox.id, { argv: ['true'] }, key()));
        await denv.exec(sandbox.id, { argv: dirty }, key());
        const taken = await timed(() =>
          denv.exec(sandbox.id, { argv: ['true'], snapshot: 'before' }, key()),
        );
        const flushMs = (taken.value.flushS ?? 0) * 1000;
        plain.push(without.ms);
        flushes.push(flushMs);
        added.push(taken.ms - flushMs);
      }
      return [
        limitRow(
          {
            name: 'checkpoint',
            what: 'a checkpoint inside a call adds, its flush apart',
            unit: 'ms',
            other: { what: 'the call without', value: median(plain) },
            notes: [`the flush of 10 MB took ${median(flushes).toFixed(0)} ms`],
          },
          median(added) - median(plain),
          60,
        ),
      ];
    }),
};
