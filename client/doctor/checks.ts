import { statfsSync, statSync } from 'node:fs';
import { Client, Connection } from '@temporalio/client';
import { connectDenv } from '../api/connect';
import { reasonOf } from '../errors';
import { packagesMissing } from '../runtimes/hud-packages';
import type { Settings } from '../settings';
import { embeddedTrouble } from '../stack/embedded';
import { temporalTrouble } from '../stack/probes';
import { readStackState } from '../stack/state';
import { findTemporalCli } from '../stack/temporal-cli';

/** One thing looked at. `ok: null` says that it could not be looked at, or need not be. */
export interface Check {
  name: string;
  ok: boolean | null;
  detail: string;
  remedy: string | null;
}

const fine = (name: string, detail: string): Check => ({ name, ok: true, detail, remedy: null });
const bad = (name: string, detail: string, remedy: string): Check => ({
  name,
  ok: false,
  detail,
  remedy,
});
const skipped = (name: string, detail: string): Check => ({ name, ok: null, detail, remedy: null });

/** What the machine has: looks only, starts nothing. */
export function checkMachine(settings: Settings): Check[] {
  return [
    checkNode(),
    checkHome(settings),
    checkSandboxes(settings),
    checkTemporalCli(settings),
    checkHud(),
  ];
}

function checkNode(): Check {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  const enough = major > 22 || (major === 22 && minor >= 13);
  return enough
    ? fine('Node', process.version)
    : bad('Node', `${process.version} is too old; 22.13 is needed`, 'npm run setup brings its own');
}

const gib = 2 ** 30;

function checkHome(settings: Settings): Check {
  const { home } = settings.paths;
  const found = statSync(home, { throwIfNoEntry: false });
  if (!found) return skipped('home', `${home} is not there yet; rollouts up makes it`);
  if ((found.mode & 0o077) !== 0) {
    return bad('home', `${home} can be read by others, and keys are in it`, `chmod 700 ${home}`);
  }
  const { bavail, bsize } = statfsSync(home);
  const free = (bavail * bsize) / gib;
  const detail = `${home}, ${free.toFixed(1)} GB free`;
  return free >= 1 ? fine('home', detail) : bad('home', detail, 'make at least 1 GB free');
}

function checkSandboxes(settings: Settings): Check {
  const name = 'sandboxes';
  if (settings.denvServer) return skipped(name, `made by ${settings.denvServer}`);
  const trouble = embeddedTrouble(settings.searchPath);
  return trouble
    ? bad(name, trouble.what, trouble.remedy)
    : fine(name, 'root, and all programs are there');
}

function checkTemporalCli(settings: Settings): Check {
  if (settings.temporalAddress)
    return skipped('Temporal command', 'not needed: TEMPORAL_ADDRESS is set');
  try {
    return fine('Temporal command', findTemporalCli(settings));
  } catch (error) {
    return bad('Temporal command', reasonOf(error).split('\n')[0] ?? '', 'npm run setup');
  }
}

function checkHud(): Check {
  const missing = packagesMissing();
  if (missing === null) return fine('HUD package', 'there, for local HUD environments');
  const detail = 'not there; only local HUD environments need it';
  return { name: 'HUD package', ok: null, detail, remedy: 'npm run setup:hud' };
}

/** What runs. */
export async function checkStack(settings: Settings): Promise<Check[]> {
  const stack = readStackState(settings.paths.run);
  const temporal = settings.temporalAddress ?? stack?.temporal.address;
  if (temporal === undefined) {
    return [bad('stack', 'does not run', 'rollouts up --detach')];
  }
  const restarts = (stack?.services ?? []).filter(({ state }) => state !== 'ready');
  const supervised = stack
    ? restarts.length === 0
      ? fine('stack', `supervised by pid ${stack.supervisor.pid}`)
      : bad(
          'stack',
          restarts.map(({ name, state, lastEnd }) => `${name} is ${state} (${lastEnd})`).join(', '),
          `look into ${settings.paths.logs}`,
        )
    : skipped('stack', 'not started by rollouts up');
  return [supervised, ...(await checkTemporal(settings, temporal)), await checkDenv(settings)];
}

async function checkTemporal(settings: Settings, address: string): Promise<Check[]> {
  const trouble = await temporalTrouble(address, settings.namespace);
  if (trouble !== null) {
    return [
      bad('Temporal', `${address}: ${trouble}`, 'rollouts up --detach, or mend TEMPORAL_ADDRESS'),
    ];
  }
  const pollers = await workerCount(settings, address);
  return [
    fine('Temporal', `${address}, namespace ${settings.namespace}`),
    pollers > 0
      ? fine('worker', `${pollers} on task queue ${settings.taskQueue}`)
      : bad('worker', `nobody works on task queue ${settings.taskQueue}`, 'rollouts up --detach'),
  ];
}

async function workerCount(settings: Settings, address: string): Promise<number> {
  const connection = await Connection.connect({ address, connectTimeout: '5 seconds' });
  try {
    const client = new Client({ connection, namespace: settings.namespace });
    const { pollers } = await client.workflowService.describeTaskQueue({
      namespace: settings.namespace,
      taskQueue: { name: settings.taskQueue },
      taskQueueType: 1, // temporal.api.enums.v1.TaskQueueType: workflow
    });
    return pollers?.length ?? 0;
  } finally {
    await connection.close();
  }
}

async function checkDenv(settings: Settings): Promise<Check> {
  try {
    const denv = connectDenv(settings);
    const { sandboxes } = await denv.listSandboxes();
    const running = sandboxes.filter(({ state }) => state === 'running').length;
    return fine('denv server', `${sandboxes.length} sandboxes, ${running} running`);
  } catch (error) {
    const remedy = settings.denvServer
      ? 'mend DENV_SERVER and DENV_API_KEY'
      : 'rollouts up --detach';
    return bad('denv server', reasonOf(error), remedy);
  }
}
