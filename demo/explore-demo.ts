import { join } from 'node:path';
import type { BatchReport } from '../contracts/batch';
import type { ExplorationResult, StrategyChoice } from '../contracts/exploration';
import { startScripted } from '../models/scripted/server';
import type { ScriptedEndpoint } from '../models/scripted/server';
import { UserError } from '../client/errors';
import { awaitExploration, startExploration } from '../client/api/explore';
import { cancelExploration } from '../client/api/rollouts';
import type { Settings } from '../client/settings';
import { readEntries } from '../rollouts/trajectory/chain';
import { sandboxesLeft } from './sandboxes-left';
import type { DemoStack } from './stack';
import { stepsOf, worstOf } from './step-values';
import type { StepValue } from './step-values';
import { newBatchId, runTaskset } from './taskset-run';

export interface ExploreReport {
  root: { rolloutId: string; reward: number | null; modelCalls: number };
  /** What being before each step of the root was worth, and what its step made of that. */
  value: { exploreId: string; steps: StepValue[]; wrong: StepValue; modelCalls: number };
  tree: Search & { exploreId: string; ended: ExplorationResult['ended'] };
  independent: Search & { batchId: string };
  /** Model calls of root and tree search, for one of the independent rollouts. */
  ratio: number;
  sandboxesLeft: number;
  versionsKept: number;
}

interface Search {
  /** Rollouts that were begun. */
  rollouts: number;
  best: number | null;
  /** Of the search alone, counted at the endpoint or by the rollouts; the root's are not among them. */
  modelCalls: number;
}

const concurrency = 4;
/** Of everything that is drawn: the root has the first, independent rollouts the next ones, explorations theirs. */
const seeds = { root: 0, independent: 1, value: 50_000, tree: 60_000 };
const most = { continuations: 200, independent: 300 };
const valueChoice = choiceOf({ name: 'value', count: 8, at: 'last' });
const treeChoice = (at: number) => choiceOf({ name: 'tree', depth: 5, branch: 6, at });

/** How good the search has to be: model calls for each one that independent rollouts need. */
export const ratioToHold = 0.5;

/**
 * One rollout that goes wrong early and fails; the step that did it, found by what continuations from each step come to; a tree
 * search from there; and independent rollouts until one does as well.
 */
export async function exploreDemo(
  stack: DemoStack,
  settings: Settings,
  example: string,
  say: (line: string) => void,
): Promise<ExploreReport> {
  const model = await startScripted({ file: join(example, 'script.yaml') });
  try {
    const run = {
      file: join(example, 'taskset.yaml'),
      baseUrl: `${model.address}/v1`,
      concurrency,
    };
    const one = { ...run, batchId: newBatchId('maze'), group: 1, seed: seeds.root };
    const first = await runTaskset(stack, settings, one, say);
    const root = first.rollouts[0];
    if (!root) throw new UserError(`${run.file} has no task`);
    const searching = { stack, settings, model, rolloutId: root.rolloutId, say };

    const valued = await search(searching, valueChoice, seeds.value);
    const steps = stepsOf(valued.result.values, root.reward, await told(stack, root.rolloutId));
    const wrong = worstOf(steps);
    if (!wrong) throw new UserError(`${root.rolloutId} has no step whose value is known`);

    const { exploreId, modelCalls, result } = await search(
      searching,
      treeChoice(wrong.step),
      seeds.tree,
      1,
    );
    const many = {
      ...run,
      batchId: newBatchId('tries'),
      group: most.independent,
      seed: seeds.independent,
      stopAtReward: 1,
      // Nobody goes on from these.
      checkpoints: 'never' as const,
      sayEvery: 10,
    };
    const tries = await runTaskset(stack, settings, many, say);
    const independent = untilFirst(tries, 1);
    return {
      root: { rolloutId: root.rolloutId, reward: root.reward, modelCalls: root.modelCalls },
      value: { exploreId: valued.exploreId, steps, wrong, modelCalls: valued.modelCalls },
      tree: {
        exploreId,
        ended: result.ended,
        rollouts: result.rollouts.length,
        best: result.best?.reward ?? null,
        modelCalls,
      },
      independent: { batchId: many.batchId, ...independent },
      ratio: (root.modelCalls + modelCalls) / (root.modelCalls + independent.modelCalls),
      sandboxesLeft: await sandboxesLeft(stack, [...first.rollouts, ...tries.rollouts]),
      versionsKept: await versionsKept(stack),
    };
  } finally {
    await model.close();
  }
}

async function versionsKept({ rollouts: { denv, owner } }: DemoStack): Promise<number> {
  return (await denv.listVersions({ owner })).versions.length;
}

interface Searching {
  stack: DemoStack;
  settings: Settings;
  model: ScriptedEndpoint;
  rolloutId: string;
  say: (line: string) => void;
}

async function search(
  { stack, settings, model, rolloutId, say }: Searching,
  strategy: StrategyChoice,
  seed: number,
  stopAtReward?: number,
): Promise<{ exploreId: string; result: ExplorationResult; modelCalls: number }> {
  const { rollouts, stopping } = stack;
  const before = model.stats().requests;
  const { exploreId } = await startExploration(rollouts, {
    rolloutId,
    strategy,
    limits: {
      concurrency,
      maxContinuations: most.continuations,
      maxDepth: strategy.depth,
      ...(stopAtReward === undefined ? {} : { stopAtReward }),
    },
    changes: {},
    seed,
    priceFile: settings.paths.prices,
  });
  say(`${exploreId}: ${strategy.name}, ${concurrency} continuations at once`);
  const cancel = (): void => void cancelExploration(rollouts, exploreId).catch(say);
  stopping.addEventListener('abort', cancel);
  if (stopping.aborted) cancel();
  const result = await awaitExploration(rollouts, exploreId);
  stopping.throwIfAborted();
  say(`${exploreId}: ${result.rollouts.length} continuations, best ${result.best?.reward ?? '-'}`);
  return { exploreId, result, modelCalls: model.stats().requests - before };
}

/** What each step of a rollout did, in a few words. */
async function told({ rollouts }: DemoStack, rolloutId: string): Promise<Map<number, string>> {
  const [result] = await rollouts.ledger.results([rolloutId]);
  const entries = await readEntries(rollouts.documents, result?.trajectory ?? '');
  return new Map(
    entries.flatMap((entry): [number, string][] => {
      if (entry.type !== 'reply') return [];
      const calls = entry.reply.toolCalls.map(({ name, arguments: args }) =>
        [name, ...Object.values(args ?? {}).map(String)].join(' '),
      );
      return [[entry.step, calls.join(', ')]];
    }),
  );
}

/**
 * The tries up to the first one that reached the reward, in the order of their seeds. Those that were begun beside it and come
 * after it are not held against them.
 */
function untilFirst({ rollouts }: BatchReport, reward: number): Search {
  const tries = rollouts.toSorted((a, b) => a.index - b.index);
  const first = tries.findIndex((one) => one.reward !== null && one.reward >= reward);
  const needed = first < 0 ? tries : tries.slice(0, first + 1);
  const rewards = needed.flatMap((one) => (one.reward === null ? [] : [one.reward]));
  return {
    rollouts: needed.length,
    best: rewards.length === 0 ? null : Math.max(...rewards),
    modelCalls: needed.reduce((sum, one) => sum + one.modelCalls, 0),
  };
}

function choiceOf(
  chosen: Partial<StrategyChoice> & Pick<StrategyChoice, 'name' | 'at'>,
): StrategyChoice {
  return { count: 1, depth: 1, branch: 1, every: 1, ...chosen };
}
