import type { Sandbox } from '../../contracts/denv';
import { DenvError } from '../errors';
import { execIdOf } from '../ids';
import type { ServerContext } from './context';
import type { Controllers } from './controllers';
import { afterUndo } from './operations';
import type { CreateWork } from './preparation';
import type { SandboxRow } from './rows';
import type { Sandboxes } from './sandboxes';
import { StartLimit } from './start-limit';
import { targetOf } from './targets';
import { toSandbox } from './views';

/** Starts that run at once: each is mostly processor time. */
const MAX_STARTS = 16;

/** How one sandbox comes up: its tree, its own command, its controller, its ports. What fails on the way is removed again. */
export class Launcher {
  private readonly starts = new StartLimit(MAX_STARTS);

  constructor(
    private readonly context: ServerContext,
    private readonly sandboxes: Sandboxes,
    private readonly controllers: Controllers,
  ) {}

  /**
   * Makes the sandbox run and waits for its controller.
   * @param key  the key of its create, or the child's of its fork
   * @throws DenvError sandbox_gone when `signal` is aborted; RolledBack when another try may succeed
   */
  async launch(key: string, work: CreateWork, signal: AbortSignal): Promise<Sandbox> {
    const row = toRow(key, work);
    this.sandboxes.put(row);
    try {
      await this.starts.run(signal, () => this.bringUp(row, work, signal));
    } catch (error) {
      await this.undo(row.id);
      throw afterUndo(error === signal.reason ? deleted(row, error) : error);
    }
    return toSandbox(row);
  }

  /** Removes what an earlier try left. */
  async undo(sandboxId: string): Promise<void> {
    this.controllers.close(sandboxId);
    await this.context.driver.remove(sandboxId);
    this.sandboxes.forget(sandboxId);
  }

  private async bringUp(row: SandboxRow, work: CreateWork, signal: AbortSignal): Promise<void> {
    const { driver } = this.context;
    await this.makeTree(row);
    if (row.spec.command) await this.startCommand(row, row.spec.command);
    await this.controllers.start(row, signal);
    for (const port of work.ports) row.ports[port] = await driver.publish(row.id, port, null);
    signal.throwIfAborted();
    row.state = 'running';
    this.record(row);
    this.controllers.watch(row);
  }

  private async makeTree({ id, spec, version }: SandboxRow): Promise<void> {
    const { base } = this.sandboxes.version(version);
    const command = 'command' in spec.controller ? spec.controller.command : null;
    await this.context.driver.create({
      sandboxId: id,
      from: base === null ? { kind: 'version', versionId: version } : { kind: 'base', base },
      image: spec.image,
      caps: spec.caps,
      ...(targetOf(spec.image) === 'docker' ? { main: { argv: command, env: spec.env } } : {}),
    });
  }

  private async startCommand({ id, key, spec }: SandboxRow, argv: string[]): Promise<void> {
    await this.context.driver.startExec(id, commandExecId(key), {
      argv,
      uid: spec.uid,
      cwd: spec.workdir,
      env: spec.env,
      stdin: null,
    });
    await guardCommand(this.context, { id, key, spec });
  }

  private record(row: SandboxRow): void {
    const { journal } = this.context;
    journal.transaction(() => {
      this.sandboxes.put(row);
      journal.record(row.id, row.forkedFrom ? 'forked' : 'created', {
        version: row.version,
        digest: row.spec.digest,
        from: row.forkedFrom,
        labels: row.labels,
        ...(row.controller.hud ? { hud: row.controller.hud } : {}),
      });
    });
  }
}

const commandExecId = (sandboxKey: string): string => execIdOf(`${sandboxKey}/command`);

/** Watches what a sandbox's own command writes, where it has one: after its start, and again by a restarted server. */
export async function guardCommand(
  { driver, outputGuard }: ServerContext,
  { id, key, spec }: Pick<SandboxRow, 'id' | 'key' | 'spec'>,
): Promise<void> {
  if (!spec.command) return;
  const handle = await driver.openExec(id, commandExecId(key));
  if (handle) outputGuard.watch(handle, id);
}

function toRow(key: string, work: CreateWork): SandboxRow {
  return {
    id: work.sandboxId,
    key,
    state: 'creating',
    spec: work.spec,
    version: work.version,
    forkedFrom: work.forkedFrom,
    labels: work.labels,
    createdAt: Date.now(),
    leaseUntil: Date.now() + work.leaseS * 1000,
    leaseS: work.leaseS,
    controller: { execId: null, ready: false, sessionId: null, protocolVersion: null },
    ports: {},
    stopped: null,
    deletedAt: null,
  };
}

function deleted({ id }: SandboxRow, cause: unknown): DenvError {
  return new DenvError('sandbox_gone', `sandbox ${id} was deleted while it was created`, { cause });
}
