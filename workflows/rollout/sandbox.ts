import { CancellationScope, isCancellation, log } from '@temporalio/workflow';
import type { SandboxOrigin, StartedSandbox } from '../../activities/sandboxes';
import type { RolloutInput } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { failed, toTrouble } from '../failures';
import { commandKey, createKey, restoreKey, startTaskKey, toolsKey } from './keys';
import { snapshotTimeoutS, toolTimeoutS } from './limits';
import type { Rollout } from './live-rollout';
import { replayCalls } from './replay-calls';
import type { AgentSandbox } from './state';

/** A list of tools comes at once or not at all. */
const toolsTimeoutS = 60;

/**
 * Brings the sandbox up to where the agent may begin: create → ready → setup. A HUD environment is ready only once its task has
 * started, and a continuation by replay once its recorded calls were made again. Called again, it does what is left; it answers
 * `continue` when that is for the next run.
 */
export async function openSandbox(rollout: Rollout): Promise<'continue' | undefined> {
  const { input, state } = rollout;
  const sandbox = state.world ?? (await start(rollout));
  if (!sandbox.task.hud) await listTools(rollout, sandbox);
  // The version that a continuation starts from was taken after its set-up.
  if (state.stage !== 'loop' && !versionToFork(input) && !state.replay) {
    await setUp(rollout, sandbox);
  }
  if (sandbox.task.hud) {
    await startTask(rollout, sandbox);
    await listTools(rollout, sandbox);
  }
  if (await replayCalls(rollout)) return 'continue';
  state.stage = 'loop';
  return undefined;
}

/** The version that a continuation starts from; undefined for a rollout that starts from its task. */
const versionToFork = ({ from }: RolloutInput): string | undefined => from?.version || undefined;

async function listTools(rollout: Rollout, sandbox: AgentSandbox): Promise<void> {
  const { input, state } = rollout;
  if (input.agent === 'model' && sandbox.agentRef === null) {
    state.stage = 'ready';
    const { agentRef } = await activitiesFor('run', 'ready: tools', toolsTimeoutS).listTools({
      key: toolsKey(state),
      sandboxId: sandbox.sandboxId,
      taskRef: input.taskRef,
      model: input.model,
      ...(sandbox.promptRef ? { promptRef: sandbox.promptRef } : {}),
      ...(sandbox.task.checkpointTools ? { checkpointTools: true as const } : {}),
      timeoutS: toolsTimeoutS,
    });
    sandbox.agentRef = agentRef;
  }
}

async function startTask(rollout: Rollout, sandbox: AgentSandbox): Promise<void> {
  const { input, state } = rollout;
  const { hud } = sandbox.task;
  if (!hud || sandbox.promptRef !== undefined) return;
  state.stage = 'setup';
  const { startTimeoutS: timeoutS } = hud;
  const { promptRef } = await activitiesFor('once', 'setup: start task', timeoutS).startTask({
    key: startTaskKey(state),
    sandboxId: sandbox.sandboxId,
    leaseS: rollout.leaseS,
    taskRef: input.taskRef,
    timeoutS,
    needsPrompt: input.agent === 'model',
  });
  sandbox.promptRef = promptRef;
}

async function start(rollout: Rollout): Promise<AgentSandbox> {
  const { input, state } = rollout;
  state.stage = 'create';
  const key = createKey(state);
  const common = {
    key,
    taskRef: input.taskRef,
    rolloutId: input.rolloutId,
    leaseS: rollout.leaseS,
  };
  const version = versionToFork(input);
  const activities = activitiesFor('start', version ? 'create: fork' : 'create');
  state.open.push({ key, by: version ? 'fork' : 'create' });
  const started = version
    ? await activities.forkVersion({ ...common, version })
    : await activities.createSandbox(common);
  return enter(rollout, started, { agentRef: null, startVersion: started.version });
}

async function setUp(rollout: Rollout, { sandboxId, task }: AgentSandbox): Promise<void> {
  const { input, state } = rollout;
  state.stage = 'setup';
  const timeoutS = toolTimeoutS(rollout);
  for (let index = 0; index < task.setupCommands; index += 1) {
    const done = await activitiesFor('run', `setup ${index}`, timeoutS).runCommand({
      key: commandKey(state, 'setup', index),
      sandboxId,
      leaseS: rollout.leaseS,
      taskRef: input.taskRef,
      list: 'setup',
      index,
      timeoutS,
    });
    if (done.exitCode === 0) continue;
    const end = done.timedOut ? `had no end in ${timeoutS} s` : `ended with ${done.exitCode}`;
    throw failed('SetupFailed', `setup command ${index} ${end}: ${done.outputTail}`);
  }
}

/** Freezes the sandbox as it is now. */
export function takeSnapshot(
  rollout: Rollout,
  key: string,
  summary: string,
): Promise<{ version: string }> {
  return activitiesFor('run', summary, snapshotTimeoutS).takeSnapshot({
    key,
    sandboxId: rollout.sandbox.sandboxId,
    rolloutId: rollout.input.rolloutId,
    leaseS: rollout.leaseS,
  });
}

/** What every restore says, whatever it was made for. */
export const notUndone = 'effects outside the sandbox are not undone';

/**
 * Restores a version: forks a new sandbox from it, and deletes the old one. The lineage records it, and so does the trajectory,
 * before what comes next.
 */
export async function restoreSandbox(
  rollout: Rollout,
  to: { step: number; version: string; why: string },
): Promise<void> {
  const { input, state } = rollout;
  const key = restoreKey(state);
  const old = state.open.slice();
  state.open.push({ key, by: 'fork' });
  state.restores += 1;
  let started: StartedSandbox;
  try {
    started = await activitiesFor('start', `restore step ${to.step}`).forkVersion({
      key,
      taskRef: input.taskRef,
      rolloutId: input.rolloutId,
      leaseS: rollout.leaseS,
      version: to.version,
    });
  } catch (error) {
    if (isCancellation(error)) throw error;
    const { failure } = toTrouble(error, state.stage);
    throw failed(failure.type, `cannot restore ${to.version}: ${failure.message}`, {
      class: 'infra',
      again: 'attempt',
    });
  }
  const { agentRef, startVersion } = rollout.sandbox;
  enter(rollout, started, { agentRef, startVersion });
  state.restored.push({ step: to.step, version: to.version, sandboxId: started.sandboxId });
  state.pending.push({ type: 'restored', ...to });
  await closeSandboxes(rollout, old);
}

function enter(
  { state }: Rollout,
  { sandboxId, task }: StartedSandbox,
  rest: Pick<AgentSandbox, 'agentRef' | 'startVersion'>,
): AgentSandbox {
  state.world = { sandboxId, task, ...rest };
  state.readyAtMs ??= Date.now();
  state.sandboxId = sandboxId;
  return state.world;
}

/**
 * Deletes sandboxes, on every way out and whatever was cancelled. One whose deletion fails or hangs is left to its lease and
 * the reaper: it changes nothing in the result.
 */
export async function closeSandboxes(
  { state }: Rollout,
  origins: SandboxOrigin[] = state.open.slice(),
): Promise<void> {
  await CancellationScope.nonCancellable(async () => {
    const activities = activitiesFor('stop', 'stop: delete sandbox');
    await Promise.all(
      origins.map(async (origin) => {
        try {
          await activities.deleteSandbox(origin);
        } catch (error) {
          log.warn('a sandbox could not be deleted: the reaper removes it', {
            key: origin.key,
            error,
          });
        }
      }),
    );
    state.open = state.open.filter((origin) => !origins.includes(origin));
  });
}
