import { newKey, shellSandbox, withSandbox, type SandboxBench } from './context';
import { limitRow, median, percentile, timed } from './row';

const times = 8;
const ownMs = 500;

/** What stopping, freezing, collecting, forking and recording add to the verifier's own time. */
export const verify: SandboxBench = {
  name: 'verify',
  async run({ denv }) {
    const overheads: number[] = [];
    for (let n = 0; n < times; n += 1) {
      await withSandbox(denv, shellSandbox, async (sandbox) => {
        const write = ['sh', '-c', 'head -c 100000 /dev/urandom > /workspace/result'];
        await denv.exec(sandbox.id, { argv: write }, { key: newKey('write') });
        const { ms, value } = await timed(() =>
          denv.verify(
            sandbox.id,
            {
              verifier: {
                image: 'host',
                command: ['sh', '-c', `sleep ${ownMs / 1000}; echo 1 > /verdict/reward.txt`],
                collect: ['/workspace/result'],
                timeoutS: 60,
              },
            },
            { key: newKey('verify') },
          ),
        );
        if (value.reward !== 1) throw new Error(`the verifier gave ${value.reward}`);
        overheads.push(ms - ownMs);
      });
    }
    return [
      limitRow(
        {
          name: 'verify',
          what: "verify adds to the verifier's own time",
          unit: 'ms',
          other: { what: 'the verifier itself', value: ownMs },
          notes: [`p95 ${percentile(overheads, 0.95).toFixed(0)} ms`],
        },
        median(overheads),
        300,
      ),
    ];
  },
};
