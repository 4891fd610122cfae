import type { Command } from 'commander';
import { connect } from '../connect';
import type { Context } from '../context';
import { awaitExploration, startExploration } from '../explore';
import { cancelExploration } from '../rollouts';
import { wholeNumberFrom } from '../options';
import { formatReward, summaryOf, tableLines } from '../report';

interface ExploreOptions {
  at: number;
  count: number;
  json?: boolean;
  detach?: boolean;
}

export function addExplore(program: Command, context: Context): void {
  program
    .command('explore')
    .description('go on from one step of a rollout several times over, and verify each')
    .argument('<rollout>', 'id of the rollout')
    .requiredOption(
      '--at <step>',
      'go on from the checkpoint before this step',
      wholeNumberFrom(1, 10_000),
    )
    .option('--count <k>', 'continuations', wholeNumberFrom(1, 64), 3)
    .option('--json', 'print one JSON object at the end, and nothing else on stdout')
    .option('--detach', 'return when they are started')
    .addHelpText(
      'after',
      '\nExamples:\n  rollouts explore rollout/nightly/restart-web/0 --at 2 --count 3\n\nrollouts show names the steps that have a checkpoint. Exit codes are those of run.',
    )
    .action((rolloutId: string, options: ExploreOptions) => explore(context, rolloutId, options));
}

async function explore(
  context: Context,
  rolloutId: string,
  options: ExploreOptions,
): Promise<void> {
  const rollouts = await connect(context.settings);
  try {
    const request = { rolloutId, step: options.at, count: options.count };
    const { exploreId, rolloutIds } = await startExploration(rollouts, request);
    context.note(
      `${rolloutIds.length} continuations of ${rolloutId} started before step ${options.at}`,
    );
    if (options.detach) {
      if (options.json) context.print(JSON.stringify({ exploreId, rolloutIds }));
      else for (const id of rolloutIds) context.print(id);
      return;
    }
    let interrupts = 0;
    process.on('SIGINT', () => {
      interrupts += 1;
      if (interrupts > 1) process.exit(130);
      context.note(
        'cancelling; waiting for sandboxes to be cleaned up (Ctrl-C again leaves at once)',
      );
      cancelExploration(rollouts, exploreId).catch((error: unknown) => context.note(String(error)));
    });
    process.on('SIGHUP', () => process.exit(0));
    const { explored, results } = await awaitExploration(rollouts, exploreId);
    if (options.json) {
      context.print(
        JSON.stringify({
          exploreId,
          parentRolloutId: rolloutId,
          step: options.at,
          declared: rolloutIds.length,
          scored: explored.scored,
          value: explored.value,
          rollouts: results.map(summaryOf),
        }),
      );
    } else {
      const rows = explored.rollouts.map(({ rolloutId: id, outcome, reward }) => [
        id,
        outcome,
        reward === null ? '-' : formatReward(reward),
      ]);
      for (const line of tableLines(['continuation', 'outcome', 'reward'], rows))
        context.print(line);
      const value = explored.value === null ? 'none' : formatReward(explored.value);
      context.print(
        `\nvalue of step ${options.at}: ${value} over ${explored.scored}/${rolloutIds.length} scored`,
      );
    }
    context.exitWith(explored.scored === rolloutIds.length ? 0 : 3);
  } finally {
    await rollouts.close();
  }
}
