import type { Command } from 'commander';
import { strategies } from '../../workflows/explore/strategies';
import { connect } from '../api/connect';
import type { Context } from '../context';
import { startExploration } from '../api/explore';
import type { ExploreRequest } from '../api/explore';
import { followExploration, printExploration } from '../follow/exploration';
import { onInterrupts } from '../follow/interrupts';
import { cancelExploration } from '../api/rollouts';
import { choice, continuationWay, positiveNumber } from './args';
import { startingStep, stopCondition, wholeNumberFrom } from './args';
import { modelOptions, toModelChanges } from './model-options';
import { addOptions } from './options';
import type { OptionTable, OptionValues } from './options';

/** A strategy that somebody adds is offered here too. */
const names = Object.keys(strategies);

const options = {
  at: {
    takes: '<step|last|uncertain>',
    help: 'where to begin: before this step, at the last checkpoint, or at the step whose value is least certain',
    parse: startingStep,
    default: 'last' as const,
  },
  strategy: {
    takes: '<name>',
    help: `${names.join(', ')}; see below`,
    parse: choice(names),
    default: 'flat',
  },
  count: {
    takes: '<n>',
    help: 'flat and value: continuations of each step',
    parse: wholeNumberFrom(1, 1000),
    default: 3,
  },
  depth: { takes: '<d>', help: 'tree: levels', parse: wholeNumberFrom(1, 100), default: 3 },
  branch: {
    takes: '<b>',
    help: 'tree: continuations of each step',
    parse: wholeNumberFrom(1, 64),
    default: 3,
  },
  every: {
    takes: '<k>',
    help: 'value and tree: look at each k-th checkpoint only',
    parse: wholeNumberFrom(1, 1000),
    default: 1,
  },
  ...modelOptions,
  budget: {
    takes: '<usd>',
    help: 'most that all continuations together may cost',
    parse: positiveNumber,
  },
  maxTokens: {
    takes: '<n>',
    help: 'most tokens that all continuations together may use',
    parse: wholeNumberFrom(1, 1e12),
  },
  concurrency: {
    takes: '<n>',
    help: 'most continuations at once',
    parse: wholeNumberFrom(1, 64),
    default: 8,
  },
  maxContinuations: {
    takes: '<n>',
    help: 'most continuations in all',
    parse: wholeNumberFrom(1, 10_000),
    default: 100,
  },
  stopWhen: {
    takes: '<condition>',
    help: "stop at the first continuation that meets it, as in 'reward>=1'",
    parse: stopCondition,
  },
  way: { takes: '<way>', help: 'snapshot or replay; see below', parse: continuationWay },
  seed: {
    takes: '<n>',
    help: 'is added to the seeds of the continuations',
    parse: wholeNumberFrom(0, 2 ** 31),
  },
  json: { help: 'print one JSON object at the end, and nothing else on stdout' },
  detach: { help: 'return when it is started' },
} satisfies OptionTable;

type ExploreOptions = OptionValues<typeof options>;

export function addExplore(program: Command, context: Context): void {
  const command = program
    .command('explore')
    .description('continue a rollout from its steps many times over, and verify each continuation')
    .argument('<rollout>', 'id of the rollout; it may still run');
  addOptions(command, options)
    .addHelpText(
      'after',
      `
Examples:
  rollouts explore rollout/nightly/restart-web/0 --at 2 --count 8
  rollouts explore rollout/nightly/restart-web/0 --count 4 --model openai/larger --temperature 1
  rollouts explore rollout/nightly/maze/0 --strategy value --count 5 --every 2
  rollouts explore rollout/nightly/maze/0 --strategy tree --at 1 --depth 4 --stop-when 'reward>=1'

Strategies:
  flat    --count continuations of one step
  tree    --branch continuations of a step, over --depth levels. Begun at a given step it goes forward, each level from the best
          continuation so far; begun at the last checkpoint it goes backward, as far as it takes
  value   --count continuations of every checkpoint: their mean reward is the value of that step

Ways to continue:
  snapshot   restores the files from a checkpoint
  replay     starts the task again and repeats the calls before the step, at no model cost; for HUD tasks, whose state no
             snapshot holds
Without --way the task decides; rollouts show says which way, and why.

Ctrl-C cancels what runs and waits for its clean-up; a second one leaves at once. When the terminal is closed the exploration
keeps running. rollouts watch and rollouts cancel take it by its id; rollouts tree shows all that came of it.

Exit codes: 0 all scored or stopped by --stop-when, 3 some are not scored, 2 bad usage, 130 left by Ctrl-C, 1 anything else.`,
    )
    .action((rolloutId: string, given: ExploreOptions) => explore(context, rolloutId, given));
}

async function explore(context: Context, rolloutId: string, given: ExploreOptions): Promise<void> {
  const request = toRequest(context, rolloutId, given);
  const rollouts = await connect(context.settings);
  const started = startExploration(rollouts, request);
  // Listens before anything says that it has begun, so that a Ctrl-C right then stops it too.
  const stopListening = onInterrupts(context, async () =>
    cancelExploration(rollouts, (await started).exploreId),
  );
  try {
    const { exploreId, chosen } = await started;
    context.note(`${exploreId} started; it continues by ${chosen.way}: ${chosen.why}`);
    if (given.detach) {
      if (given.json) context.print(JSON.stringify({ exploreId }));
      else context.print(`it runs in the background; see: rollouts watch ${exploreId}`);
      return;
    }
    printExploration(context, await followExploration(context, rollouts, exploreId), given);
  } finally {
    stopListening();
    await rollouts.close();
  }
}

/** Turns what was typed into the contracts of strategy and limits. */
function toRequest(context: Context, rolloutId: string, given: ExploreOptions): ExploreRequest {
  const { strategy: name, count, depth, branch, every, at } = given;
  return {
    rolloutId,
    strategy: { name, count, depth, branch, every, at },
    limits: {
      concurrency: given.concurrency,
      maxContinuations: given.maxContinuations,
      maxDepth: name === 'tree' ? depth : 100,
      maxCostUsd: given.budget,
      maxTokens: given.maxTokens,
      stopAtReward: given.stopWhen,
    },
    changes: toModelChanges(given),
    way: given.way,
    seed: given.seed,
    priceFile: context.settings.paths.prices,
  };
}
