import { readFileSync } from 'node:fs';
import type { StackBench, StackContext } from './context';
import { mcpTask, scriptOf, startRollouts } from './rollouts';
import { limitRow } from './row';

const rollouts = 16;
const concurrency = 4;
const steps = 10;
const ticksPerS = 100; // USER_HZ, the same on every Linux

/** CPU-seconds of a rollout of ten steps with an MCP tool, by process, checkpoints at every step included. */
export const cpu: StackBench = {
  name: 'cpu',
  async run(context) {
    const reply = { toolCalls: [{ name: 'get_config', arguments: { service: 'web' } }] };
    const model = await scriptOf(steps, reply);
    try {
      const many = (count: number) =>
        startRollouts(context, mcpTask, model, { count, concurrency }).then((b) => b.end());
      await many(concurrency); // warms caches and code
      const before = spentBy(context);
      const began = performance.now();
      await many(rollouts);
      const wallS = (performance.now() - began) / 1000;
      const after = spentBy(context);
      const each = after.map((now, n) => ({
        name: now.name,
        ownS: (now.ownS - (before[n]?.ownS ?? 0)) / rollouts,
        childrenS: (now.childrenS - (before[n]?.childrenS ?? 0)) / rollouts,
      }));
      const childrenS = each.reduce((sum, { childrenS: s }) => sum + s, 0);
      return [
        limitRow(
          {
            name: 'cpu',
            what: `CPU of a ${steps}-step rollout, worker + Temporal + denv server`,
            unit: 's',
            notes: [
              each.map(({ name, ownS }) => `${name} ${ownS.toFixed(3)} s`).join(', '),
              `programs that denv ran to their end (runc, btrfs): ${childrenS.toFixed(3)} s`,
              `${rollouts} rollouts, ${concurrency} at once, took ${wallS.toFixed(1)} s`,
            ],
          },
          each.reduce((sum, { ownS }) => sum + ownS, 0),
          0.3,
        ),
      ];
    } finally {
      await model.close();
    }
  },
};

/** CPU time so far of each service, and of the children it has waited for. */
function spentBy({ stack }: StackContext): { name: string; ownS: number; childrenS: number }[] {
  return stack().services.map(({ name, pid }) => {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // utime, stime, cutime and cstime, counted after the command in parentheses.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [user = 0, system = 0, childUser = 0, childSystem = 0] = fields.slice(11, 15).map(Number);
    return {
      name,
      ownS: (user + system) / ticksPerS,
      childrenS: (childUser + childSystem) / ticksPerS,
    };
  });
}
