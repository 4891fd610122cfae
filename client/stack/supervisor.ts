import { join } from 'node:path';
import { reasonOf, UserError } from '../errors';
import { prepareHome } from '../../rollouts/home';
import type { Settings } from '../settings';
import { endLeftovers, shutDownSandboxes } from './leftovers';
import { takeLock } from './lock';
import { planDenv, planTemporal } from './plan';
import type { StackOptions } from './plan';
import { processIdOf, removePidFile, writePidFile } from './processes';
import { Service } from './service';
import type { ServiceSpec } from './service';
import { denvService, temporalService, workerService } from './services';
import { removeStackState, writeStackState } from './state';
import type { StackState } from './state';

export const supervisorPidFile = (settings: Settings): string =>
  join(settings.paths.run, 'supervisor.pid');

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
  const stack = new Stack(settings, env, say, lock);
  try {
    await stack.start(options, signal);
  } catch (error) {
    await stack.stop();
    throw error instanceof UserError ? error : new UserError(reasonOf(error));
  }
  return stack;
}

/** The services of one home, as long as this process keeps them running. */
export class Stack {
  private readonly services: Service[] = [];
  private current: StackState | null = null;
  private stopped: Promise<void> | null = null;

  constructor(
    private readonly settings: Settings,
    private readonly env: NodeJS.ProcessEnv,
    private readonly say: (line: string) => void,
    private readonly lock: { release(): void },
  ) {}

  state(): StackState {
    if (!this.current) throw new Error('the stack was never started');
    return this.current;
  }

  /** Resolves when all services have answered. Whoever calls it stops the stack when it throws. */
  async start(options: StackOptions, signal?: AbortSignal): Promise<void> {
    const { settings, env, say } = this;
    await endLeftovers(settings, say);
    const denv = await planDenv(settings, env, options, say);
    const temporal = await planTemporal(settings, options, say);
    const supervisor = processIdOf(process.pid);
    writePidFile(supervisorPidFile(settings), supervisor);
    this.current = {
      supervisor,
      startedAt: new Date().toISOString(),
      ready: false,
      temporal: { address: temporal.address, namespace: settings.namespace, ui: temporal.ui },
      denv: { address: denv.address, imageDirs: denv.imageDirs },
      services: [],
    };
    const places = { settings, env };
    // Stopping goes through them in reverse: worker, Temporal, denv.
    const first: ServiceSpec[] = [];
    if (denv.port !== null) first.push(denvService(places, denv));
    if (temporal.start) first.push(temporalService(places, temporal.start));
    await unlessAborted(Promise.all(first.map((spec) => this.startService(spec))), signal);
    const addresses = { temporal: temporal.address, denv: denv.address, denvApiKey: denv.apiKey };
    await unlessAborted(this.startService(workerService(places, addresses)), signal);
    this.current.ready = true;
    this.write();
  }

  /**
   * Ends all it started; sandboxes become `stopped` and a later start resumes them. Asked again with `now`, it no longer
   * waits for the services to finish what they do.
   */
  stop(options?: { now: boolean }): Promise<void> {
    if (options?.now) for (const service of this.services) void service.stop({ now: true });
    this.stopped ??= this.stopAll();
    return this.stopped;
  }

  private startService(spec: ServiceSpec): Promise<void> {
    this.say(`starting ${spec.name}`);
    const service = new Service(spec, () => this.write());
    this.services.push(service);
    return service.ready;
  }

  private async stopAll(): Promise<void> {
    const { settings, env, say } = this;
    for (const service of this.services.toReversed()) {
      const { name, state } = service.state();
      if (state !== 'stopped') say(`stopping ${name}`);
      await service.stop();
    }
    if (!settings.denvServer && this.services.length > 0) {
      await shutDownSandboxes(settings, env, say);
    }
    removeStackState(settings.paths.run);
    removePidFile(supervisorPidFile(settings));
    this.lock.release();
  }

  private write(): void {
    if (!this.current) return;
    this.current.services = this.services.map((service) => service.state());
    writeStackState(this.settings.paths.run, this.current);
  }
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
