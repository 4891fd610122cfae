import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from '../../client/api/connect';
import type { Rollouts } from '../../client/api/connect';
import { planBatch } from '../../client/api/plan';
import { startBatch } from '../../client/api/rollouts';
import { settingsFrom } from '../../client/settings';
import { isAlive, processIdOf } from '../../client/stack/processes';
import type { ProcessId } from '../../client/stack/processes';
import { readStackState } from '../../client/stack/state';
import type { ServiceState, StackState } from '../../client/stack/state';
import type { DeploymentRecord, Sandbox } from '../../contracts/denv';
import type { RolloutInput, RolloutResult } from '../../contracts/rollout';
import { sandboxIdOf } from '../../denv/ids';
import { startScripted } from '../../models/scripted/server';
import type { ScriptedEndpoint, ScriptedFault } from '../../models/scripted/server';
import { loadTaskset } from '../../tasks/rows';
import { scriptOf, writeTaskset } from './crash-tasks';
import type { CrashTask } from './crash-tasks';
import { run } from './person';
import { settled, until } from './until';

/** A batch with a model endpoint of its own, so that its requests can be counted. */
export interface CrashBatch {
  batchId: string;
  tasks: CrashTask[];
  model: ScriptedEndpoint;
}

interface BatchOptions {
  concurrency?: number;
  fault?: ScriptedFault;
  /** Of the rollouts' inputs. */
  input?: Partial<Pick<RolloutInput, 'modelTimeoutS' | 'modelWaitS' | 'leaseS'>>;
}

const settings = (home: string) =>
  settingsFrom({ PATH: process.env['PATH'], HOME: process.env['HOME'], ROLLOUTS_HOME: home });

/** A stack of its own, brought up by the command line as a person would, whose parts can be killed at chosen moments. */
export class CrashStack {
  readonly home = mkdtempSync(join(tmpdir(), 'rollouts-crash-'));
  private readonly models: ScriptedEndpoint[] = [];
  private connected: Rollouts | null = null;

  async up(): Promise<void> {
    const free = ['--temporal-port', '0', '--ui-port', '0', '--denv-port', '0'];
    const { code, stdout, stderr } = await run(
      this.home,
      'bin/rollouts',
      'up',
      '--detach',
      ...free,
    );
    if (code !== 0) throw new Error(`up exited ${code}:\n${stdout}\n${stderr}`);
    await this.connected?.close();
    this.connected = await connect(settings(this.home));
  }

  async down(): Promise<void> {
    const { code, stdout, stderr } = await run(this.home, 'bin/rollouts', 'down');
    if (code !== 0) throw new Error(`down exited ${code}:\n${stdout}\n${stderr}`);
  }

  /** Takes everything down; the home is left to be looked at. */
  async close(): Promise<void> {
    await this.connected?.close();
    this.connected = null;
    for (const model of this.models) await model.close();
    await this.down();
  }

  remove(): void {
    rmSync(this.home, { recursive: true, force: true });
  }

  /** What the services said last, for a failure to be understood by. */
  #logTails(): string {
    const tails = ['worker', 'denv', 'temporal'].map((name) => {
      const log = join(this.home, 'logs', `${name}.log`);
      return `${name}: ${existsSync(log) ? readFileSync(log, 'utf8').slice(-3000) : 'no log'}`;
    });
    return tails.join('\n');
  }

  get rollouts(): Rollouts {
    if (!this.connected) throw new Error('the stack is not up');
    return this.connected;
  }

  command(...args: string[]) {
    return run(this.home, 'bin/rollouts', ...args);
  }

  /** Starts the tasks as a batch. The same batch again, with the tasks of before, is declared anew under another endpoint. */
  async start(
    batchId: string,
    tasks: CrashTask[],
    options: BatchOptions = {},
  ): Promise<CrashBatch> {
    const model = await startScripted({ script: scriptOf(tasks), fault: options.fault });
    this.models.push(model);
    await this.declare({ batchId, tasks, model }, options);
    return { batchId, tasks, model };
  }

  async declare(batch: CrashBatch, options: BatchOptions = {}): Promise<{ knownBefore: boolean }> {
    const { batchId, tasks, model } = batch;
    const file = writeTaskset(join(this.home, 'tasksets', batchId), tasks);
    const { paths } = settings(this.home);
    const plan = await planBatch(
      await loadTaskset(file, { imagesAreHere: true }),
      {
        batchId,
        agent: 'model',
        model: 'scripted',
        baseUrl: `${model.address}/v1`,
        settings: {},
        group: 1,
        taskIds: [],
      },
      { ...this.rollouts, priceFile: paths.prices },
    );
    const inputs = plan.rollouts.map((input) => ({ ...input, ...options.input }));
    const concurrency = options.concurrency ?? tasks.length;
    return startBatch(this.rollouts, { ...plan, rollouts: inputs }, concurrency);
  }

  /** Opens every gate of a batch and waits until all it declared has a result. By task. */
  async finish({ batchId, tasks }: CrashBatch): Promise<Record<string, RolloutResult>> {
    const ids = tasks.map((task) => rolloutIdOf(batchId, task.id));
    await this.finishRollouts(ids);
    const results = await this.rollouts.ledger.results(ids);
    return Object.fromEntries(results.map((result) => [result.taskId, result]));
  }

  /** The same for rollouts by id, with their sandboxes gone. */
  async finishRollouts(ids: string[]): Promise<RolloutResult[]> {
    try {
      await until(`the end of ${ids.join(', ')}`, async () => {
        await this.openGates(ids);
        return (await this.rollouts.ledger.results(ids)).length === ids.length;
      });
    } catch (error) {
      throw new Error(`${String(error)}\n${this.#logTails()}`, { cause: error });
    }
    // One that is being deleted is listed as deleted, and until it is gone the version that it was made from is in use.
    await until(`no sandbox of ${ids.join(', ')}`, async () => {
      const { sandboxes } = await this.rollouts.denv.listSandboxes();
      return !sandboxes.some(({ labels }) => ids.includes(labels['rolloutId'] ?? ''));
    });
    return this.rollouts.ledger.results(ids);
  }

  async openGates(ids: string[]): Promise<void> {
    this.openVerifiers();
    for (const { id, state } of await this.sandboxes(ids)) {
      if (state !== 'running') continue;
      const touch = { argv: ['touch', '/workspace/go'], timeoutS: 10 };
      await settled(this.rollouts.denv.exec(id, touch, { key: `gate/${id}` }));
    }
  }

  /** Verifiers that wait, and no sandbox. */
  openVerifiers(): void {
    const folder = join(this.home, 'denv', 'verify');
    for (const name of existsSync(folder) ? readdirSync(folder) : []) {
      const verdict = join(folder, name, 'verdict');
      if (existsSync(verdict)) writeFileSync(join(verdict, 'go'), '');
    }
  }

  async sandboxes(ids: string[]): Promise<Sandbox[]> {
    const { sandboxes } = await this.rollouts.denv.listSandboxes();
    return sandboxes.filter(
      ({ state, labels }) => state !== 'deleted' && ids.includes(labels['rolloutId'] ?? ''),
    );
  }

  /** Until so many effects are in a sandbox: by default the first one of the rollout. */
  async effects(rolloutId: string, count: number, sandboxId?: string): Promise<void> {
    const id = sandboxId ?? sandboxIdOf(`${rolloutId}/1/create`);
    await until(`${count} effects of ${rolloutId}`, async () => {
      const text = (await this.rollouts.denv.readFile(id, '/workspace/effects')).toString();
      return text.split('\n').filter(Boolean).length === count;
    });
  }

  /** Until an operation of the denv server runs. */
  async running(key: string): Promise<void> {
    await until(`operation ${key} runs`, async () => {
      return (await this.rollouts.denv.operation(key)).state === 'running';
    });
  }

  /** Until the verifier of a rollout has begun. */
  async verifying(rolloutId: string): Promise<void> {
    await this.running(`${rolloutId}/1/verify/0`);
    await until('its folder', async () => {
      const folder = join(this.home, 'denv', 'verify');
      const names = existsSync(folder) ? readdirSync(folder) : [];
      return names.some((name) => existsSync(join(folder, name, 'verdict')));
    });
  }

  /** Until a sandbox of the rollout is being made. */
  async creating(rolloutId: string): Promise<void> {
    await until(`a sandbox of ${rolloutId} is being made`, async () => {
      return (await this.sandboxes([rolloutId])).some(({ state }) => state === 'creating');
    });
  }

  record(sandboxId: string): Promise<DeploymentRecord> {
    return this.rollouts.denv.record(sandboxId);
  }

  state(): StackState {
    const state = readStackState(settings(this.home).paths.run);
    if (!state) throw new Error('the stack is not up');
    return state;
  }

  service(name: ServiceState['name']): ServiceState {
    const found = this.state().services.find((service) => service.name === name);
    if (!found) throw new Error(`there is no ${name}`);
    return found;
  }

  /** kill -9, and its supervisor has it up again when this returns. */
  async killAndAwait(name: ServiceState['name']): Promise<void> {
    const { restarts } = this.service(name);
    await killed(this.processOf(name));
    await until(`${name} is up again`, async () => {
      const now = this.service(name);
      return now.restarts > restarts && now.state === 'ready';
    });
  }

  /** kill -9 of the supervisor; its services live on. */
  async killSupervisor(): Promise<void> {
    await killed(this.state().supervisor);
  }

  /** kill -9 of everything, the supervisor first. */
  async killEverything(): Promise<void> {
    const services = (['temporal', 'denv', 'worker'] as const).map((name) => this.processOf(name));
    await this.killSupervisor();
    for (const service of services) await killed(service);
  }

  private processOf(name: ServiceState['name']): ProcessId {
    const { pid } = this.service(name);
    if (pid === null) throw new Error(`${name} does not run`);
    return processIdOf(pid);
  }
}

export const rolloutIdOf = (batchId: string, task: string): string =>
  `rollout/${batchId}/${task}/0`;

async function killed(target: ProcessId): Promise<void> {
  process.kill(target.pid, 'SIGKILL');
  while (isAlive(target)) await sleep(5);
}
