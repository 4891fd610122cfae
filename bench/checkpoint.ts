import type { ExecRequest } from '../contracts/denv';
import type { DenvClient } from '../denv/client';
import { newKey, shellSandbox, withSandbox, type SandboxBench } from './context';
import { limitRow, median, timed } from './row';

const dirty = ['dd', 'if=/dev/urandom', 'of=/workspace/dirty', 'bs=1M', 'count=10', 'status=none'];

/** What a checkpoint adds to a call: with 10 MB that were just written, and with nothing that has changed. */
export const checkpoint: SandboxBench = {
  name: 'checkpoint',
  run: ({ denv, small }) =>
    withSandbox(denv, shellSandbox, async ({ id }) => {
      const plain: number[] = [];
      const [before, changed, unchanged] = [added(), added(), added()];
      for (let n = 0; n < (small ? 2 : 12); n += 1) {
        await call(denv, id, { argv: dirty });
        plain.push((await call(denv, id, {})).ms);
        await call(denv, id, { argv: dirty });
        note(before, await call(denv, id, { snapshot: 'before' }));
        await call(denv, id, { argv: dirty });
        note(changed, await call(denv, id, { snapshot: 'changed' }));
        const same = await call(denv, id, { snapshot: 'changed' });
        if (same.unchanged !== true) throw new Error('a call that did nothing changed something');
        note(unchanged, same);
      }
      const without = { what: 'the call without', value: median(plain) };
      const rowOf = (name: string, what: string, { ms, flushMs }: Added) =>
        limitRow(
          {
            name,
            what,
            unit: 'ms',
            other: without,
            notes: [`the flush took ${median(flushMs).toFixed(0)} ms`],
          },
          median(ms) - median(plain),
          60,
        );
      return [
        rowOf('checkpoint', 'a checkpoint inside a call adds, its flush apart', before),
        rowOf('checkpoint-changed', 'the same, only when something has changed', changed),
        rowOf('checkpoint-unchanged', 'and where nothing has', unchanged),
      ];
    }),
};

interface Added {
  ms: number[];
  flushMs: number[];
}

const added = (): Added => ({ ms: [], flushMs: [] });

function note(into: Added, { ms, flushMs }: { ms: number; flushMs: number }): void {
  into.ms.push(ms - flushMs);
  into.flushMs.push(flushMs);
}

async function call(denv: DenvClient, id: string, request: Partial<ExecRequest>) {
  const { ms, value } = await timed(() =>
    denv.exec(id, { argv: ['true'], ...request }, { key: newKey('checkpoint') }),
  );
  return { ms, flushMs: (value.flushS ?? 0) * 1000, unchanged: value.unchanged };
}
