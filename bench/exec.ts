import { newKey, shellSandbox, withSandbox, type SandboxBench } from './context';
import { median, percentile, ratioRow, timed } from './row';

const times = 40;

/** One command, from the request to its exit code, against `runc exec` of the same. */
export const exec: SandboxBench = {
  name: 'exec',
  async run({ denv, bare }) {
    const tree = await bare.base('exec-base', {});
    await bare.run('exec', tree, ['sleep', '1000']);
    const bareMs: number[] = [];
    const heldMs: number[] = [];
    const ours: number[] = [];
    await withSandbox(denv, shellSandbox, async (sandbox) => {
      for (let n = 0; n < times; n += 1) {
        const request = { argv: ['true'] };
        ours.push((await timed(() => denv.exec(sandbox.id, request, { key: newKey('exec') }))).ms);
        bareMs.push((await timed(() => bare.exec('exec', ['true']))).ms);
        heldMs.push((await timed(() => bare.heldExec('exec', ['true']))).ms);
      }
    });
    await bare.remove('exec');
    return [
      ratioRow(
        {
          name: 'exec',
          what: 'exec of `true`, held outside the server',
          unit: 'ms',
          notes: [
            `p95 ${percentile(ours, 0.95).toFixed(0)} ms`,
            `conmon around runc exec, which is what lets it outlive the server: ${median(heldMs).toFixed(0)} ms`,
          ],
        },
        ours,
        { what: 'runc exec', values: bareMs },
        1.3,
      ),
    ];
  },
};
