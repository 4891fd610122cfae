import { join } from 'node:path';
import type { Settings } from '../settings';
import { temporalAnswers } from './probes';
import type { ServiceSpec } from './service';

/** Compiled files of this project, beside the one that runs now: dist/. */
const dist = join(__dirname, '..', '..');
const nodeArgs = ['--disable-warning=ExperimentalWarning'];

interface Places {
  settings: Settings;
  env: NodeJS.ProcessEnv;
}

function files(settings: Settings, name: ServiceSpec['name']) {
  return {
    logFile: join(settings.paths.logs, `${name}.log`),
    pidFile: join(settings.paths.run, `${name}.pid`),
  };
}

/**
 * The Temporal dev server with a database file. The flags make it 3 to 4 times faster than its defaults and it still keeps
 * its state across kill -9.
 */
export function temporalService(
  { settings, env }: Places,
  options: { cli: string; port: number; uiPort: number },
): ServiceSpec {
  const { cli, port, uiPort } = options;
  return {
    name: 'temporal',
    command: cli,
    args: [
      'server',
      'start-dev',
      ...flags({ ip: '127.0.0.1', port, 'ui-port': uiPort, 'log-level': 'error' }),
      ...flags({ 'db-filename': settings.paths.temporalDb }),
      ...flags({ 'sqlite-pragma': 'journal_mode=wal' }),
      ...flags({ 'sqlite-pragma': 'synchronous=1' }),
      ...flags({ 'dynamic-config-value': 'system.enableActivityEagerExecution=true' }),
      ...flags({ 'dynamic-config-value': 'matching.useNewMatcher=true' }),
    ],
    env,
    ...files(settings, 'temporal'),
    isReady: () => temporalAnswers(`127.0.0.1:${port}`, settings.namespace),
    readyS: 60,
    graceS: 15,
  };
}

export function denvService(
  { settings, env }: Places,
  { port, apiKey, imageDirs }: { port: number; apiKey: string; imageDirs: string[] },
): ServiceSpec {
  return {
    name: 'denv',
    command: process.execPath,
    args: [
      ...nodeArgs,
      join(dist, 'denv', 'server', 'main.js'),
      ...flags({ data: settings.paths.denvData, host: '127.0.0.1', port }),
    ],
    env: { ...env, DENV_API_KEY: apiKey, DENV_IMAGE_DIRS: imageDirs.join(':') },
    ...files(settings, 'denv'),
    isReady: async (log) => saysReady(log),
    readyS: 60,
    graceS: 15,
  };
}

/** Ends every sandbox process, mount and helper of the embedded denv server. The server itself must have ended. */
export function denvShutdownCommand(settings: Settings): { command: string; args: string[] } {
  const main = join(dist, 'denv', 'server', 'main.js');
  return {
    command: process.execPath,
    args: [...nodeArgs, main, '--shutdown', '--data', settings.paths.denvData],
  };
}

export function workerService(
  { settings, env }: Places,
  addresses: { temporal: string; denv: string; denvApiKey: string },
): ServiceSpec {
  return {
    name: 'worker',
    command: process.execPath,
    args: [...nodeArgs, join(dist, 'worker', 'main.js')],
    env: {
      ...env,
      ROLLOUTS_HOME: settings.paths.home,
      ROLLOUTS_TASK_QUEUE: settings.taskQueue,
      TEMPORAL_ADDRESS: addresses.temporal,
      TEMPORAL_NAMESPACE: settings.namespace,
      DENV_SERVER: addresses.denv,
      DENV_API_KEY: addresses.denvApiKey,
    },
    ...files(settings, 'worker'),
    isReady: async (log) => saysReady(log),
    readyS: 60,
    graceS: 30,
  };
}

function flags(values: Record<string, string | number>): string[] {
  return Object.entries(values).flatMap(([name, value]) => [`--${name}`, String(value)]);
}

/** The line that the worker and the denv server print when they are up. */
function saysReady(log: string): boolean {
  return log.split('\n').some((line) => line.startsWith('{"ready":true'));
}
