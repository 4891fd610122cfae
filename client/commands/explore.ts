import type { Command } from 'commander';
import type { StrategyChoice } from '../../contracts/rollout';
import { ContinuationWay } from '../../contracts/task';
import { strategies } from '../../workflows/explore/strategies';
import { connect } from '../api/connect';
import type { Context } from '../context';
import { startExploration } from '../api/explore';
import type { ExploreRequest } from '../api/explore';
import { followExploration, printExploration } from '../follow/exploration';
import { onInterrupts } from '../follow/interrupts';
import { cancelExploration } from '../api/rollouts';
import {
  choice,
  collect,
  positiveNumber,
  startingStep,
  stopCondition,
  wholeNumberFrom,
} from './args';
import { changesOf } from './change-options';
import type { ChangeOptions } from './change-options';

interface ExploreOptions extends ChangeOptions {
  at: StrategyChoice['at'];
  strategy: string;
  count: number;
  depth: number;
  branch: number;
  every: number;
  budget?: number;
  maxTokens?: number;
  concurrency: number;
  maxContinuations: number;
  stopWhen?: number;
  way?: ContinuationWay;
  seed?: number;
  json?: boolean;
  detach?: boolean;
}

/** A strategy that somebody has added has a name here too. */
const names = Object.keys(strategies);

export function addExplore(program: Command, context: Context): void {
  program
    .command('explore')
    .description('go on from steps of a rollout many times over, and verify each')
    .argument('<rollout>', 'id of the rollout; it may still run')
    .option(
      '--at <step|last|uncertain>',
      'where to begin: before that step, at the last checkpoint, or at the one whose value is the least certain',
      startingStep,
      'last',
    )
    .option('--strategy <name>', `${names.join(', ')}; see below`, choice(names), 'flat')
    .option('--count <n>', 'flat and value: continuations of a step', wholeNumberFrom(1, 1000), 3)
    .option('--depth <d>', 'tree: levels', wholeNumberFrom(1, 100), 3)
    .option('--branch <b>', 'tree: continuations of a step', wholeNumberFrom(1, 64), 3)
    .option('--every <k>', 'value and tree: only each k-th checkpoint', wholeNumberFrom(1, 1000), 1)
    .option('--model <name>', 'another model than the rollout had')
    .option('--base-url <url>', 'where that model answers')
    .option('--temperature <t>', 'as --model-arg temperature=<t>')
    .option(
      '--model-arg <name=value>',
      'as of run, over the rollout\u2019s own; again for more',
      collect,
    )
    .option('--budget <usd>', 'of all continuations together', positiveNumber)
    .option('--max-tokens <n>', 'of all continuations together', wholeNumberFrom(1, 1e12))
    .option('--concurrency <n>', 'continuations at once', wholeNumberFrom(1, 64), 8)
    .option('--max-continuations <n>', 'in all', wholeNumberFrom(1, 10_000), 100)
    .option(
      '--stop-when <condition>',
      "as in 'reward>=1': the first such one ends it",
      stopCondition,
    )
    .option('--way <way>', 'snapshot or replay; see below', choice(ContinuationWay.options))
    .option('--seed <n>', 'added to the seeds of the continuations', wholeNumberFrom(0, 2 ** 31))
    .option('--json', 'print one JSON object at the end, and nothing else on stdout')
    .option('--detach', 'return when it is started')
    .addHelpText(
      'after',
      `
Examples:
  rollouts explore rollout/nightly/restart-web/0 --at 2 --count 8
  rollouts explore rollout/nightly/restart-web/0 --at last --count 4 --model openai/larger --temperature 1
  rollouts explore rollout/nightly/maze/0 --strategy value --count 5 --every 2
  rollouts explore rollout/nightly/maze/0 --strategy tree --at 1 --depth 4 --branch 3 --stop-when 'reward>=1' --budget 5

Strategies:
  flat    --count continuations of one step
  tree    --branch continuations of a step, --depth times over: from a given step on forward, each time of the best so far;
          from the last one backward, as far as it takes
  value   --count continuations of every checkpoint: their mean reward is what it was worth to be there

Ways to go on: snapshot, from the files as they were; replay, by making the task's start and the calls before the step again, at no
model cost: for HUD tasks, whose state no snapshot holds. Left out, the task decides; rollouts show says which and why.

Ctrl-C cancels what runs and waits for its clean-up; a second one leaves at once. A closed terminal changes nothing: rollouts
watch and rollouts cancel take an exploration by its id. All that came of it: rollouts tree. At most 64 at once, 10,000 in all, 100 deep.

Exit codes: 0 all scored or stopped as told, 3 some are not scored, 2 bad usage, 130 left, 1 anything else.`,
    )
    .action((rolloutId: string, options: ExploreOptions) => explore(context, rolloutId, options));
}

async function explore(
  context: Context,
  rolloutId: string,
  options: ExploreOptions,
): Promise<void> {
  const request = requestOf(context, rolloutId, options);
  const rollouts = await connect(context.settings);
  const started = startExploration(rollouts, request);
  // Before anything says that it has begun: a Ctrl-C right then stops it too.
  const stopListening = onInterrupts(context, async () =>
    cancelExploration(rollouts, (await started).exploreId),
  );
  try {
    const { exploreId, chosen } = await started;
    context.note(`${exploreId} started; continuations go on by ${chosen.way}: ${chosen.why}`);
    if (options.detach) {
      if (options.json) context.print(JSON.stringify({ exploreId }));
      else context.print(`it goes on; see: rollouts watch ${exploreId}`);
      return;
    }
    printExploration(context, await followExploration(context, rollouts, exploreId), options);
  } finally {
    stopListening();
    await rollouts.close();
  }
}

/** The contracts of strategy and limits, from what was typed. */
function requestOf(context: Context, rolloutId: string, options: ExploreOptions): ExploreRequest {
  const { strategy: name, count, depth, branch, every, at } = options;
  return {
    rolloutId,
    strategy: { name, count, depth, branch, every, at },
    limits: {
      concurrency: options.concurrency,
      maxContinuations: options.maxContinuations,
      maxDepth: name === 'tree' ? depth : 100,
      maxCostUsd: options.budget,
      maxTokens: options.maxTokens,
      stopAtReward: options.stopWhen,
    },
    changes: changesOf(options),
    way: options.way,
    seed: options.seed,
    priceFile: context.settings.paths.prices,
  };
}
