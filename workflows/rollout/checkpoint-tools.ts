import type { CallToolOutput } from '../../activities/calls';
import { activitiesFor } from '../activity-options';
import { callsKey, modelKey } from './keys';
import { snapshotTimeoutS } from './limits';
import type { Rollout } from './live-rollout';
import { notUndone, restoreSandbox } from './sandbox';
import type { RolloutState } from './state';

/** How often an agent may roll back: each time costs a new sandbox. */
const maxRollbacks = 10;

/** Checkpoints by name that an agent can have at a time. */
const maxNamed = 100;

/**
 * Makes a call of `checkpoint` or `rollback`, which the agent was offered beside its controller's tools. A rollback restores the
 * files of the sandbox, by a fork; the transcript continues, and its observation says what is as it was and what is not.
 */
export async function makeOwnCall(
  rollout: Rollout,
  { index, tool }: { index: number; tool: string },
): Promise<CallToolOutput> {
  const { input, state } = rollout;
  const { step } = state;
  const call = { modelKey: modelKey(state, step), index };
  const summary = `step ${step} call ${index}: ${tool}`;
  const done = await activitiesFor('run', summary, snapshotTimeoutS).ownCall({
    ...call,
    key: `${callsKey(state, step)}/${index}`,
    sandboxId: rollout.sandbox.sandboxId,
    rolloutId: input.rolloutId,
    leaseS: rollout.leaseS,
  });
  const said =
    done.name === null
      ? refused('give `name`, a text of 1 to 64 characters')
      : done.version !== undefined
        ? keep(rollout, { name: done.name, version: done.version, step })
        : await rollBack(rollout, done.name);
  const { ref } = await activitiesFor('record', 'answer').answerCall({ ...call, step, ...said });
  return { ref, durationS: 0 };
}

interface Said {
  text: string;
  isError: boolean;
}

const refused = (text: string): Said => ({ text, isError: true });

function keep({ state }: Rollout, named: RolloutState['named'][number]): Said {
  state.named = [...state.named.filter(({ name }) => name !== named.name), named].slice(-maxNamed);
  return { text: `Checkpoint "${named.name}" is kept.`, isError: false };
}

async function rollBack(rollout: Rollout, name: string): Promise<Said> {
  const { state } = rollout;
  const found = state.named.find((one) => one.name === name);
  if (!found) {
    const names = state.named.map((one) => `"${one.name}"`).join(', ') || 'none';
    return refused(`There is no checkpoint "${name}". Kept are: ${names}.`);
  }
  if (state.rollbacks >= maxRollbacks) {
    return refused(`Nothing was rolled back: a rollout has at most ${maxRollbacks} rollbacks.`);
  }
  state.rollbacks += 1;
  const { step, version } = found;
  const why = `the agent rolled back to its checkpoint "${name}"`;
  await restoreSandbox(rollout, { step, version, why });
  // Later checkpoints are of a sandbox that is gone.
  state.named = state.named.slice(0, state.named.indexOf(found) + 1);
  const text = `Rolled back to checkpoint "${name}" of step ${step}: all files are as they were then. Running programs, and with them what the tools kept in memory, have started anew; ${notUndone}.`;
  return { text, isError: false };
}
