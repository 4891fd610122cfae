import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { reasonOf, UserError } from '../errors';
import { embeddedDenvKey, prepareHome } from '../settings';
import type { Settings } from '../settings';
import { embeddedTrouble } from './embedded';
import { takeLock } from './lock';
import { claimPort } from './ports';
import { temporalTrouble } from './probes';
import { endProcess, processIdOf, readPidFile, removePidFile, writePidFile } from './processes';
import { startService } from './service';
import type { Service, ServiceSpec } from './service';
import { denvService, denvShutdownCommand, temporalService, workerService } from './services';
import { removeStackState, writeStackState } from './state';
import type { StackState } from './state';
import { findTemporalCli } from './temporal-cli';

export interface StackOptions {
  /** Ports; 0 for any that is free. */
  temporal: number;
  ui: number;
  denv: number;
  /** Folders that images may be taken from, beside `images` in the home and DENV_IMAGE_DIRS. */
  imageDirs?: string[];
}

export interface Stack {
  state(): StackState;
  /**
   * Ends all it started; sandboxes become `stopped` and a later start goes on with them. Asked again with `now`, it no longer
   * waits for the services to finish what they do.
   */
  stop(options?: { now: boolean }): Promise<void>;
}

const serviceNames = ['worker', 'temporal', 'denv'] as const;
const supervisorPid = (settings: Settings) => join(settings.paths.run, 'supervisor.pid');

/**
 * Starts Temporal, the denv server and the worker, waits until all answer, and starts again what ends. What the environment
 * names (TEMPORAL_ADDRESS, DENV_SERVER) is used and not started. One stack a home: a second one is refused.
 * @param signal  gives the start up
 * @throws UserError; nothing of it is running then
 */
export async function startStack(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  options: StackOptions,
  say: (line: string) => void,
  signal?: AbortSignal,
): Promise<Stack> {
  prepareHome(settings.paths);
  const lock = takeLock(settings.paths.run);
  if (!lock) {
    throw new UserError(
      `the stack of ${settings.paths.home} is running already; see it with: rollouts status`,
    );
  }
  const services: Service[] = [];
  let state: StackState | null = null;
  const write = () => {
    if (!state) return;
    state.services = services.map((service) => service.state());
    writeStackState(settings.paths.run, state);
  };
  const start = (spec: ServiceSpec) => {
    const service = startService(spec, write);
    services.push(service);
    return service;
  };
  const stopAll = async (): Promise<void> => {
    for (const service of services.toReversed()) {
      if (service.state().state !== 'stopped') say(`stopping ${service.name}`);
      await service.stop();
    }
    if (!settings.denvServer && services.length > 0) await shutDownSandboxes(settings, env, say);
    removeStackState(settings.paths.run);
    removePidFile(supervisorPid(settings));
    lock.release();
  };
  let stopped: Promise<void> | null = null;
  const stop = (options?: { now: boolean }): Promise<void> => {
    if (options?.now) for (const service of services) void service.stop({ now: true });
    stopped ??= stopAll();
    return stopped;
  };

  try {
    await endLeftovers(settings, say);
    const denv = await planDenv(settings, env, options);
    const temporal = await planTemporal(settings, options);
    writePidFile(supervisorPid(settings), processIdOf(process.pid));
    state = {
      supervisor: processIdOf(process.pid),
      startedAt: new Date().toISOString(),
      ready: false,
      temporal: { address: temporal.address, namespace: settings.namespace, ui: temporal.ui },
      denv: { address: denv.address, imageDirs: denv.imageDirs },
      services: [],
    };
    write();
    const places = { settings, env };
    // The way down is this order reversed: worker, Temporal, denv.
    const first: Service[] = [];
    if (denv.port !== null) first.push(start(denvService(places, denv)));
    if (temporal.start) first.push(start(temporalService(places, temporal.start)));
    for (const service of first) say(`starting ${service.name}`);
    await unlessAborted(Promise.all(first.map((service) => service.ready)), signal);
    say('starting worker');
    const addresses = { temporal: temporal.address, denv: denv.address, denvApiKey: denv.apiKey };
    await unlessAborted(start(workerService(places, addresses)).ready, signal);
    state.ready = true;
    write();
  } catch (error) {
    await stop();
    throw error instanceof UserError ? error : new UserError(reasonOf(error));
  }
  const running = state;
  return { state: () => running, stop };
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work;
  const aborted = Promise.withResolvers<never>();
  const onAbort = (): void => aborted.reject(new UserError('the start was given up'));
  if (signal.aborted) onAbort();
  signal.addEventListener('abort', onAbort);
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** What a supervisor that was killed has left: its services have no keeper, so they are ended and started anew. */
export async function endLeftovers(settings: Settings, say: (line: string) => void): Promise<void> {
  for (const name of serviceNames) {
    const file = join(settings.paths.run, `${name}.pid`);
    const left = readPidFile(file);
    if (!left) continue;
    say(`ending ${name}, left by an earlier stack`);
    await endProcess(left, 'SIGTERM', 15);
    removePidFile(file);
  }
}

async function planTemporal(settings: Settings, ports: StackOptions) {
  const address = settings.temporalAddress;
  if (address) {
    const trouble = await temporalTrouble(address, settings.namespace);
    if (trouble === null) return { address, ui: null, start: null };
    throw new UserError(
      `the Temporal server at TEMPORAL_ADDRESS=${address} does not answer: ${trouble}`,
    );
  }
  const cli = findTemporalCli(settings);
  const port = await claimPort(ports.temporal, 'Temporal', '--temporal-port');
  const uiPort = await claimPort(ports.ui, 'the Temporal UI', '--ui-port');
  return {
    address: `127.0.0.1:${port}`,
    ui: `http://127.0.0.1:${uiPort}`,
    start: { cli, port, uiPort },
  };
}

async function planDenv(settings: Settings, env: NodeJS.ProcessEnv, options: StackOptions) {
  if (settings.denvServer) {
    if (settings.denvApiKey === null) {
      throw new UserError(
        `DENV_SERVER is ${settings.denvServer}, and its key is needed in DENV_API_KEY`,
      );
    }
    return {
      address: settings.denvServer,
      apiKey: settings.denvApiKey,
      port: null,
      imageDirs: null,
    };
  }
  const trouble = embeddedTrouble(settings.searchPath);
  if (trouble) throw new UserError(`${trouble.what}\nTo go on, ${trouble.remedy}`);
  const port = await claimPort(options.denv, 'the denv server', '--denv-port');
  const apiKey = settings.denvApiKey ?? embeddedDenvKey(settings.paths);
  const given = (env['DENV_IMAGE_DIRS'] ?? '').split(':').filter((folder) => folder !== '');
  const imageDirs = [settings.paths.images, ...given, ...(options.imageDirs ?? [])];
  return { address: `http://127.0.0.1:${port}`, apiKey, port, imageDirs };
}

/** Ends what the embedded denv server has running in sandboxes. Success when there is nothing. */
export async function shutDownSandboxes(
  settings: Settings,
  env: NodeJS.ProcessEnv,
  say: (line: string) => void,
): Promise<void> {
  if (!existsSync(settings.paths.denvData)) return;
  say('ending sandboxes');
  const { command, args } = denvShutdownCommand(settings);
  try {
    await promisify(execFile)(command, args, { env });
  } catch (error) {
    const stderr: unknown = Reflect.get(Object(error), 'stderr');
    const why = typeof stderr === 'string' && stderr !== '' ? stderr.trim() : reasonOf(error);
    say(`sandboxes could not be ended: ${why}`);
  }
}
