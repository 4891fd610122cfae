import { CancellationScope, isCancellation, log } from '@temporalio/workflow';
import type { SandboxOrigin, StartedSandbox } from '../../activities/sandboxes';
import type { RolloutInput } from '../../contracts/rollout';
import { activitiesFor } from '../activity-options';
import { failed, troubleOf } from '../failures';
import { commandKey, createKey, restoreKey, startTaskKey, toolsKey } from './keys';
import { defaultToolTimeoutS, leaseOf } from './limits';
import { replay } from './replay-calls';
import { worldOf } from './state';
import type { RolloutState, World } from './state';

/** A list of tools comes at once or not at all. */
const toolsTimeoutS = 60;

/**
 * Brings the sandbox up to where the agent may begin: create → ready → setup. A HUD environment is ready only once its task has
 * started, and a continuation by replay once its recorded calls were made again. Does what is left of it, when called again: in
 * the next run, where it answers `continue`.
 */
export async function openWorld(
  input: RolloutInput,
  state: RolloutState,
): Promise<'continue' | undefined> {
  const world = state.world ?? (await start(input, state));
  if (!world.task.hud) await listTools(input, state, world);
  // A version that a continuation starts from had its set-up done.
  if (state.stage !== 'loop' && !versionOf(input) && !state.replay) {
    await setUp(input, state, world);
  }
  if (world.task.hud) {
    await startTask(input, state, world);
    await listTools(input, state, world);
  }
  if (await replay(input, state)) return 'continue';
  state.stage = 'loop';
  return undefined;
}

/** What a continuation starts from, where that is a version. */
const versionOf = ({ from }: RolloutInput): string | undefined => from?.version || undefined;

async function listTools(input: RolloutInput, state: RolloutState, world: World): Promise<void> {
  if (input.agent === 'model' && world.agentRef === null) {
    state.stage = 'ready';
    const { agentRef } = await activitiesFor('run', 'ready: tools', toolsTimeoutS).listTools({
      key: toolsKey(state),
      sandboxId: world.sandboxId,
      taskRef: input.taskRef,
      model: input.model,
      ...(world.promptRef ? { promptRef: world.promptRef } : {}),
      ...(world.task.checkpointTools ? { checkpointTools: true as const } : {}),
      timeoutS: toolsTimeoutS,
    });
    world.agentRef = agentRef;
  }
}

async function startTask(input: RolloutInput, state: RolloutState, world: World): Promise<void> {
  const { hud } = world.task;
  if (!hud || world.promptRef !== undefined) return;
  state.stage = 'setup';
  const { startTimeoutS: timeoutS } = hud;
  const { promptRef } = await activitiesFor('once', 'setup: start task', timeoutS).startTask({
    key: startTaskKey(state),
    sandboxId: world.sandboxId,
    leaseS: leaseOf(input),
    taskRef: input.taskRef,
    timeoutS,
    needsPrompt: input.agent === 'model',
  });
  world.promptRef = promptRef;
}

async function start(input: RolloutInput, state: RolloutState): Promise<World> {
  state.stage = 'create';
  if (input.from?.way === 'memory') throw noMemory(input);
  const key = createKey(state);
  const common = {
    key,
    taskRef: input.taskRef,
    rolloutId: input.rolloutId,
    leaseS: leaseOf(input),
  };
  const version = versionOf(input);
  const activities = activitiesFor('start', version ? 'create: fork' : 'create');
  state.open.push({ key, by: version ? 'fork' : 'create' });
  const sandbox = version
    ? await activities.forkVersion({ ...common, version })
    : await activities.createSandbox(common);
  return enter(state, sandbox, { agentRef: null, startVersion: sandbox.version });
}

function noMemory({ rolloutId }: RolloutInput): Error {
  const message = `${rolloutId}: way memory: no target forks what is in memory; take snapshot or replay`;
  return failed('CapabilityMissing', message);
}

async function setUp(input: RolloutInput, state: RolloutState, world: World): Promise<void> {
  state.stage = 'setup';
  const timeoutS = input.limits.toolTimeoutS ?? defaultToolTimeoutS;
  for (let index = 0; index < world.task.setupCommands; index += 1) {
    const done = await activitiesFor('run', `setup ${index}`, timeoutS).runCommand({
      key: commandKey(state, 'setup', index),
      sandboxId: world.sandboxId,
      leaseS: leaseOf(input),
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

/** Of every restore, whatever it was made for. */
export const notUndone = 'effects outside the sandbox are not undone';

/**
 * Puts the world back to a version: a new sandbox forked from it, and the old one deleted. Recorded in the lineage and, before
 * what comes next, in the trajectory.
 */
export async function restoreWorld(
  input: RolloutInput,
  state: RolloutState,
  to: { step: number; version: string; why: string },
): Promise<void> {
  const key = restoreKey(state);
  const old = state.open.slice();
  state.open.push({ key, by: 'fork' });
  state.restores += 1;
  let sandbox: StartedSandbox;
  try {
    sandbox = await activitiesFor('start', `restore step ${to.step}`).forkVersion({
      key,
      taskRef: input.taskRef,
      rolloutId: input.rolloutId,
      leaseS: leaseOf(input),
      version: to.version,
    });
  } catch (error) {
    if (isCancellation(error)) throw error;
    const { failure } = troubleOf(error, state.stage);
    throw failed(failure.type, `cannot restore ${to.version}: ${failure.message}`, {
      class: 'infra',
      again: 'attempt',
    });
  }
  const { agentRef, startVersion } = worldOf(state);
  enter(state, sandbox, { agentRef, startVersion });
  state.restored.push({ step: to.step, version: to.version, sandboxId: sandbox.sandboxId });
  state.pending.push({ type: 'restored', ...to });
  await closeSandboxes(state, old);
}

function enter(
  state: RolloutState,
  { sandboxId, task }: StartedSandbox,
  rest: Pick<World, 'agentRef' | 'startVersion'>,
): World {
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
  state: RolloutState,
  origins: SandboxOrigin[] = state.open.slice(),
): Promise<void> {
  await CancellationScope.nonCancellable(async () => {
    const activities = activitiesFor('stop', 'stop: delete sandbox');
    await Promise.all(
      origins.map(async (origin) => {
        try {
          await activities.deleteSandbox(origin);
        } catch (error) {
          log.warn('a sandbox is left to the reaper', { key: origin.key, error });
        }
      }),
    );
    state.open = state.open.filter((origin) => !origins.includes(origin));
  });
}
