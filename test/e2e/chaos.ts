import { existsSync, readdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { awaitExploration, startExploration } from '../../client/api/explore';
import { planBatch } from '../../client/api/plan';
import { startBatch } from '../../client/api/rollouts';
import type { ExplorationResult } from '../../contracts/exploration';
import type { RolloutResult } from '../../contracts/rollout';
import { layoutOf } from '../../denv/drivers/host/layout';
import { startScripted } from '../../models/scripted/server';
import type { ScriptedEndpoint } from '../../models/scripted/server';
import type { LoadedTaskset } from '../../tasks/loaded-taskset';
import { loadTaskset } from '../../tasks/rows';
import { rolloutIdOf } from './crash-stack';
import type { CrashStack } from './crash-stack';
import { projectRoot } from './person';
import { randomFrom } from './random';
import { until } from './until';

/** What came of one seed. */
export interface ChaosRow {
  seed: number;
  /** In the order in which they came, as `worker 1.2 s`: what was killed, and when after the start. */
  kills: string[];
  /** By continuation, in the order in which they were started. */
  rewards: (number | null)[];
  modelCallsReissued: number;
  /** Worlds that were put back to before a step. */
  restored: number;
  seconds: number;
  /** What is not as it should be; nothing else makes a seed fail. */
  wrong: string[];
}

type Victim = 'worker' | 'denv';

const depth = 3;
const branch = 3;
const concurrency = 3;
const example = resolve(projectRoot, 'examples/maze');

/**
 * A tree search of 3 levels with 3 continuations each, twice over: once undisturbed, and once with kill -9 of the worker and of
 * the denv server at moments that the seed draws. Both have the same root, model and seeds, so they have to come to the same.
 * With odd seeds the controller is called over stdio, so that a call that is out ends all the same; with even ones over HTTP, so that
 * the outcome of such a call is unknown and its world is put back to before the step.
 */
export class Chaos {
  private constructor(
    private readonly stack: CrashStack,
    private readonly model: ScriptedEndpoint,
  ) {}

  static async on(stack: CrashStack): Promise<Chaos> {
    return new Chaos(stack, await startScripted({ file: join(example, 'script.yaml') }));
  }

  close(): Promise<void> {
    return this.model.close();
  }

  async run(seed: number): Promise<ChaosRow> {
    const began = Date.now();
    const requests = this.model.stats().requests;
    const root = await this.root(seed);
    const calm = await this.search(root, seed, () => Promise.resolve([]));
    const disturbed = await this.search(root, seed, (over) => this.kill(seed, calm.ms, over));
    const results = [root, ...calm.results, ...disturbed.results];
    const accounted = results.reduce((sum, r) => sum + r.modelCalls + r.modelCallsReissued, 0);
    const reissued = disturbed.results.reduce((sum, r) => sum + r.modelCallsReissued, 0);
    const repeated = this.model.stats().requests - requests - accounted;
    return {
      seed,
      kills: disturbed.kills,
      rewards: disturbed.results.map(({ reward }) => reward),
      modelCallsReissued: reissued,
      restored: disturbed.results.reduce((sum, r) => sum + r.lineage.restored.length, 0),
      seconds: (Date.now() - began) / 1000,
      wrong: [
        ...treeFaults(calm.explored, calm.results).map((fault) => `undisturbed: ${fault}`),
        ...treeFaults(disturbed.explored, disturbed.results),
        ...differences(calm, disturbed),
        ...(repeated === 0 ? [] : [`${repeated} model calls repeated`]),
        ...(reissued <= disturbed.kills.length * concurrency
          ? []
          : [`${reissued} model calls reissued for ${disturbed.kills.length} kills`]),
        ...(await this.left(results)),
      ],
    };
  }

  /** One rollout to search from, which keeps all of its checkpoints. */
  private async root(seed: number): Promise<RolloutResult> {
    const { rollouts } = this.stack;
    const batchId = `chaos-${seed}`;
    const taskset = await loadTaskset(join(example, 'taskset.yaml'), { imagesAreHere: true });
    const plan = await planBatch(
      withController(taskset, seed),
      {
        batchId,
        agent: 'model',
        model: 'scripted',
        baseUrl: `${this.model.address}/v1`,
        settings: { seed: seed * 1000 },
        group: 1,
        taskIds: [],
      },
      { ...rollouts, priceFile: join(this.stack.home, 'prices.json') },
    );
    await startBatch(rollouts, plan, 1);
    const [root] = await this.stack.finishRollouts([rolloutIdOf(batchId, 'way-out')]);
    if (!root) throw new Error(`seed ${seed} has no root`);
    return root;
  }

  private async search(
    root: RolloutResult,
    seed: number,
    disturb: (over: AbortSignal) => Promise<string[]>,
  ): Promise<Search> {
    const { rollouts } = this.stack;
    const began = Date.now();
    const { exploreId } = await startExploration(rollouts, {
      rolloutId: root.rolloutId,
      strategy: { name: 'tree', count: 1, depth, branch, every: 1, at: 1 },
      limits: { concurrency, maxContinuations: depth * branch, maxDepth: depth },
      changes: {},
      seed: seed * 1000,
      priceFile: join(this.stack.home, 'prices.json'),
    });
    const over = new AbortController();
    const disturbing = disturb(over.signal);
    disturbing.catch(() => undefined); // Told below; an exploration that fails says more.
    const explored = await awaitExploration(rollouts, exploreId).finally(() => over.abort());
    const ms = Date.now() - began;
    const kills = await disturbing;
    const ids = explored.rollouts.map(({ rolloutId }) => rolloutId);
    const found = await rollouts.ledger.results(ids);
    const results = ids.flatMap((id) => found.filter(({ rolloutId }) => rolloutId === id));
    return { explored, results, kills, ms };
  }

  /** Kills at drawn moments until the exploration is over; a victim is up again before the next one is killed. */
  private async kill(seed: number, calmMs: number, over: AbortSignal): Promise<string[]> {
    const random = randomFrom(seed);
    const moments = Array.from({ length: 2 + Math.floor(random() * 3) }, () => random() * calmMs);
    const began = Date.now();
    const kills: string[] = [];
    for (const moment of moments.sort((a, b) => a - b)) {
      const victims: Victim[] = [['worker'], ['denv'], ['worker', 'denv']][
        Math.floor(random() * 3)
      ] as Victim[]; // one of the three
      if (!(await passed(Math.max(0, began + moment - Date.now()), over))) break;
      kills.push(`${victims.join('+')} ${((Date.now() - began) / 1000).toFixed(1)} s`);
      await Promise.all(victims.map((victim) => this.stack.killAndAwait(victim)));
    }
    return kills;
  }

  /** Sandboxes that live on, and versions that no result names. */
  private async left(results: RolloutResult[]): Promise<string[]> {
    const { denv } = this.stack.rollouts;
    const ids = results.map(({ rolloutId }) => rolloutId);
    const living = () => this.stack.sandboxes(ids);
    await until('its sandboxes are gone', async () => (await living()).length === 0).catch(
      () => undefined,
    );
    const named = new Set(results.flatMap(versionsOf));
    const { versions } = await denv.listVersions({});
    const surplus = versions.filter(
      ({ id, labels }) => ids.includes(labels['rolloutId'] ?? '') && !named.has(id),
    );
    const kept = new Set(versions.map(({ id }) => id));
    const lost = [...named].filter((id) => !kept.has(id));
    return [
      ...(await living()).map(({ id, state }) => `sandbox ${id} is left, ${state}`),
      ...surplus.map(({ id, labels }) => `version ${id} of ${labels['rolloutId']} is left`),
      ...lost.map((id) => `version ${id} is gone`),
      ...this.treesWithoutVersion(kept),
    ];
  }

  /** On the disk, and not in the server's books. */
  private treesWithoutVersion(kept: Set<string>): string[] {
    const { versions } = layoutOf(join(this.stack.home, 'denv'));
    const trees = existsSync(versions) ? readdirSync(versions) : [];
    return trees.filter((id) => !kept.has(id)).map((id) => `the tree of version ${id} is left`);
  }
}

/** Calls that take a while, so that kills come in the middle of them. */
const program = ['node', '/app/main.mjs', '--slow', '300'];

const withController = (taskset: LoadedTaskset, seed: number): LoadedTaskset => ({
  ...taskset,
  tasks: taskset.tasks.map((task) => ({
    ...task,
    environment: {
      ...task.environment,
      controller:
        seed % 2 === 0
          ? { kind: 'mcp-http', command: [...program, '--http', '8765'], port: 8765 }
          : { kind: 'mcp-stdio', command: program },
    },
  })),
});

interface Search {
  explored: ExplorationResult;
  /** In the order of `explored.rollouts`. */
  results: RolloutResult[];
  kills: string[];
  ms: number;
}

/** Every level whole, every leaf once, every one of them judged once. */
function treeFaults(explored: ExplorationResult, results: RolloutResult[]): string[] {
  const ids = new Set(explored.rollouts.map(({ rolloutId }) => rolloutId));
  const levels = new Map<string, number>();
  for (const { parentRolloutId, step } of explored.rollouts) {
    const level = `${parentRolloutId} ${step}`;
    levels.set(level, (levels.get(level) ?? 0) + 1);
  }
  const judged = ({ verdicts }: RolloutResult) =>
    verdicts.filter(({ of, verdict }) => of === 'submission' && verdict === 'reward').length;
  const sizes = [...levels.values()].join(', ');
  return [
    ...(explored.ended === 'done' ? [] : [`the exploration ended by ${explored.ended}`]),
    ...(explored.rollouts.length === depth * branch && ids.size === depth * branch
      ? []
      : [`${explored.rollouts.length} leaves, ${ids.size} of them different`]),
    ...(sizes === Array.from({ length: depth }, () => branch).join(', ')
      ? []
      : [`levels of ${sizes}`]),
    ...(results.length === explored.rollouts.length
      ? []
      : [`${results.length} of ${explored.rollouts.length} leaves have a result`]),
    ...results
      .filter((result) => result.outcome !== 'scored' || judged(result) !== 1)
      .map(
        (result) =>
          `${result.rolloutId} is ${result.outcome}, with ${judged(result)} verdicts: ${result.failure?.message}`,
      ),
  ];
}

/** By their place in the tree, not by their ids. */
function differences(calm: Search, disturbed: Search): string[] {
  const told = ({ explored }: Search): string[] => {
    const order = new Map(explored.rollouts.map(({ rolloutId }, n) => [rolloutId, `#${n + 1}`]));
    return explored.rollouts.map(
      ({ parentRolloutId, step, reward }, n) =>
        `#${n + 1} of ${order.get(parentRolloutId ?? '') ?? 'the root'} before step ${step}: ${reward}`,
    );
  };
  const [was, is] = [told(calm), told(disturbed)];
  return was.flatMap((line, n) => (line === is[n] ? [] : [`${line} became ${is[n]}`]));
}

/** What a rollout keeps with `keep: all`: checkpoints and what its verdicts judged. */
const versionsOf = ({ checkpoints, verdicts }: RolloutResult): string[] => [
  ...checkpoints.map(({ version }) => version),
  ...verdicts.map(({ version }) => version),
];

/** False when it is over before. */
const passed = (ms: number, over: AbortSignal): Promise<boolean> =>
  sleep(ms, true, { signal: over }).catch(() => false);
