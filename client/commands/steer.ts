import type { Command } from 'commander';
import type { RolloutStatus } from '../../contracts/rollout';
import { connect } from '../api/connect';
import type { Rollouts } from '../api/connect';
import type { Context } from '../context';
import { isExploration } from '../../workflows/continuation-ids';
import {
  cancelBatch,
  cancelExploration,
  cancelRollout,
  pauseRollout,
  resumeRollout,
  sendMessage,
} from '../api/rollouts';

/** Adds the commands that tell a running rollout something. */
export function addSteering(program: Command, context: Context): void {
  const told = (work: (rollouts: Rollouts) => Promise<string>) => withStack(context, work);

  program
    .command('cancel')
    .description('cancel a rollout, a batch or an exploration, and delete its sandboxes')
    .argument('<id>', 'id of a rollout or exploration, or name of a batch')
    .addHelpText(
      'after',
      '\nExamples:\n  rollouts cancel rollout/nightly/restart-web/0\n  rollouts cancel nightly\n  rollouts cancel explore/rollout/nightly/restart-web/0/1',
    )
    .action((id: string) => told((rollouts) => cancel(rollouts, id)));

  program
    .command('pause')
    .description('pause a rollout before its next model call; its sandbox keeps running')
    .argument('<rollout>', 'id of the rollout')
    .addHelpText('after', '\nExample:\n  rollouts pause rollout/nightly/restart-web/0')
    .action((id: string) =>
      told(async (rollouts) => words('paused', await pauseRollout(rollouts, id))),
    );

  program
    .command('resume')
    .description('resume a paused rollout')
    .argument('<rollout>', 'id of the rollout')
    .addHelpText('after', '\nExample:\n  rollouts resume rollout/nightly/restart-web/0')
    .action((id: string) =>
      told(async (rollouts) => words('resumed', await resumeRollout(rollouts, id))),
    );

  program
    .command('message')
    .description('send a message to the agent of a running rollout, shown before its next step')
    .argument('<rollout>', 'id of the rollout')
    .argument('<text>', 'what to say')
    .addHelpText(
      'after',
      '\nExample:\n  rollouts message rollout/nightly/restart-web/0 "Look at the proxy first."',
    )
    .action((id: string, text: string) =>
      told(
        async (rollouts) =>
          `sent; messages that wait for the agent: ${await sendMessage(rollouts, id, text)}`,
      ),
    );
}

async function withStack(
  context: Context,
  work: (rollouts: Rollouts) => Promise<string>,
): Promise<void> {
  const rollouts = await connect(context.settings);
  try {
    context.print(await work(rollouts));
  } finally {
    await rollouts.close();
  }
}

async function cancel(rollouts: Rollouts, id: string): Promise<string> {
  if (await rollouts.ledger.batch(id)) {
    await cancelBatch(rollouts, id);
    return `batch ${id} is being cancelled; see: rollouts watch ${id}`;
  }
  if (isExploration(id)) {
    await cancelExploration(rollouts, id);
    return `${id} is being cancelled; see: rollouts watch ${id}`;
  }
  await cancelRollout(rollouts, id);
  return `${id} is being cancelled; see: rollouts show ${id}`;
}

function words(what: string, status: RolloutStatus): string {
  return `${status.rolloutId} ${what}: stage ${status.stage}, step ${status.step}`;
}
