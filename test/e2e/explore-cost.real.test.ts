import type { ExplorationInput, ExplorationResult } from '../../contracts/exploration';
import type { RolloutInput } from '../../contracts/rollout';
import { FakeDenv } from '../fakes/fake-denv';
import { calls, FakeModel } from '../fakes/fake-model';
import { openTemporal } from '../temporal-env';
import type { TemporalEnv } from '../temporal-env';

/** What 64 continuations cost their worker, with a model and sandboxes that cost nothing. Told, and bounded where it must be. */

const count = 64;
const steps = 4;

let env: TemporalEnv;

beforeAll(async () => {
  env = await openTemporal();
}, 60_000);
afterAll(() => env.close());

const explorationOf = (root: RolloutInput, n: number): ExplorationInput => ({
  exploreId: `explore/${root.rolloutId}/${n}`,
  root,
  rootNode: {
    rolloutId: root.rolloutId,
    parentRolloutId: null,
    step: null,
    depth: 0,
    state: 'scored',
    reward: 1,
    checkpoints: [1, 2, 3, 4],
  },
  strategy: { name: 'flat', count, depth: 1, branch: 1, every: 1, at: 1 },
  limits: { concurrency: count, maxContinuations: count, maxDepth: 1 },
  seed: 0,
});

it(`64 continuations of ${steps} steps at once`, async () => {
  const say = () => [
    ...Array.from({ length: steps }, () => calls(['write', { line: 'x' }])),
    { text: 'Done.' },
  ];
  const model = new FakeModel((_request, turn) => say()[turn]);
  const told = await env.withWorker({ denv: new FakeDenv(), model }, async (running) => {
    const root = await env.declare();
    await (await running.start(root)).result();
    const explore = async (n: number) => {
      const input = explorationOf(root, n);
      const handle = await env.temporal.client.workflow.start('explore', {
        workflowId: input.exploreId,
        taskQueue: running.taskQueue,
        args: [input],
      });
      const result = (await handle.result()) as ExplorationResult; // what the explore workflow returns
      const { historyLength, historySize } = await handle.describe();
      return { result, historyLength, historySize };
    };
    await explore(1); // warms caches and code
    const before = { cpu: process.cpuUsage(), rss: process.memoryUsage().rss, at: Date.now() };
    const peak = { rss: before.rss };
    const sampler = setInterval(() => {
      peak.rss = Math.max(peak.rss, process.memoryUsage().rss);
    }, 20);
    const explored = await explore(2).finally(() => clearInterval(sampler));
    const cpu = process.cpuUsage(before.cpu);
    return {
      ...explored,
      cpuS: (cpu.user + cpu.system) / 1e6,
      rssMb: (peak.rss - before.rss) / 2 ** 20,
      wallS: (Date.now() - before.at) / 1000,
    };
  });

  const { result, historyLength, historySize = 0, cpuS, rssMb, wallS } = told;
  console.log(
    `${count} continuations: ${wallS.toFixed(1)} s, ${cpuS.toFixed(1)} s CPU (${(cpuS / count).toFixed(3)} each), ` +
      `+${rssMb.toFixed(0)} MB at most, history of the exploration ${historyLength} events, ${(historySize / 1024).toFixed(0)} KiB`,
  );
  expect(result).toMatchObject({ scored: count, ended: 'done', modelCalls: count * (steps + 1) });
  expect(new Set(result.rollouts.map(({ rolloutId }) => rolloutId)).size).toBe(count);
  // The inputs of continuations and their ends, and no transcript: some KB each.
  expect(historySize / count).toBeLessThan(16 * 1024);
}, 120_000);
