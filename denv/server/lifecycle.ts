import type { ForkReply, Sandbox } from '../../contracts/denv';
import { DenvError, toDenvError } from '../errors';
import { execIdOf, forkChildKey, sandboxIdOf } from '../ids';
import type { ServerContext } from './context';
import type { Controllers } from './controllers';
import { afterUndo, type OperationContext, RolledBack } from './operations';
import type { CreateWork, ForkWork, Preparation } from './preparation';
import type { SandboxRow, VersionRow } from './rows';
import type { Sandboxes } from './sandboxes';
import { targetOf } from './targets';
import { toSandbox } from './views';

/** Starts that run at once; the rest wait their turn, since each is mostly processor time. */
const MAX_STARTS = 16;

/** Birth and death of sandboxes: create, fork and delete, each redone whole when the server died in the middle of it. */
export class Lifecycle {
  private starting = 0;
  private readonly queue: (() => void)[] = [];
  private readonly deleting = new Map<string, Promise<void>>();

  constructor(
    private readonly context: ServerContext,
    private readonly sandboxes: Sandboxes,
    private readonly controllers: Controllers,
    private readonly preparation: Preparation,
  ) {
    context.operations.register('create', (operation) => this.create(operation));
    context.operations.register('fork', (operation) => this.fork(operation));
  }

  /**
   * Deletes a sandbox and all that runs in it. Idempotent: gone is success, and an id never seen leaves a tombstone, so that
   * a create of it that comes later is refused.
   */
  async remove(id: string): Promise<void> {
    const running = this.deleting.get(id);
    if (running) return running;
    const removal = this.removeNow(id).finally(() => this.deleting.delete(id));
    this.deleting.set(id, removal);
    return removal;
  }

  private async removeNow(id: string): Promise<void> {
    const { journal, operations, driver } = this.context;
    if (journal.deletedSandbox(id)) return;
    if (!this.sandboxes.find(id)) {
      journal.putTombstone(id);
      await operations.cancelAll(id);
      if (!this.sandboxes.find(id)) return;
    }
    const row = this.sandboxes.get(id);
    if (row.state !== 'creating') {
      row.state = 'deleting';
      this.sandboxes.put(row);
    }
    await operations.cancelAll(id);
    await this.controllers.letGo(row);
    await driver.remove(id);
    const left = this.sandboxes.find(id);
    if (left) this.sandboxes.markDeleted(left);
    else journal.putTombstone(id);
  }

  private async create(operation: OperationContext): Promise<Sandbox> {
    const work = operation.request as CreateWork; // made by Preparation.create
    if (operation.resumed) await this.undo(work.sandboxId);
    return this.launch(operation.key, work, operation.signal);
  }

  private async fork(operation: OperationContext): Promise<ForkReply> {
    const work = operation.request as ForkWork; // made by Preparation.fork
    const version = await this.forkedVersion(operation.key, work);
    const children = Array.from({ length: work.count }, (_, n) => forkChildKey(operation.key, n));
    const replies = await Promise.all(
      children.map(async (key) => {
        const sandboxId = sandboxIdOf(key);
        try {
          if (operation.resumed) await this.undo(sandboxId);
          this.preparation.refuseGone(sandboxId);
          const sandbox = await this.launch(
            key,
            {
              sandboxId,
              spec: version.spec,
              version: version.id,
              forkedFrom: { sandbox: version.sandbox, version: version.id },
              labels: work.labels,
              leaseS: work.leaseS,
              ports: work.ports,
            },
            operation.signal,
          );
          return { sandbox };
        } catch (error) {
          const cause = error instanceof RolledBack ? error.cause : error;
          return { error: toDenvError(cause).toBody().error };
        }
      }),
    );
    return { version: version.id, pausedMs: version.pausedMs, children: replies };
  }

  private async forkedVersion(key: string, work: ForkWork): Promise<VersionRow> {
    if (work.versionId !== null) return this.sandboxes.version(work.versionId);
    try {
      const row = this.preparation.forkable(work.sandboxId ?? '');
      return await this.sandboxes.takeVersion(row, key, { stop: false });
    } catch (error) {
      throw afterUndo(error);
    }
  }

  /** Makes the sandbox run and waits for its controller. What fails is removed again. */
  private async launch(key: string, work: CreateWork, signal: AbortSignal): Promise<Sandbox> {
    const row: SandboxRow = {
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
    this.sandboxes.put(row);
    await this.turn();
    try {
      await this.bringUp(row, work, signal);
    } catch (error) {
      await this.undo(row.id);
      throw afterUndo(error);
    } finally {
      this.release();
    }
    return toSandbox(row);
  }

  private async bringUp(row: SandboxRow, work: CreateWork, signal: AbortSignal): Promise<void> {
    const { driver, journal } = this.context;
    const version = this.sandboxes.version(work.version);
    await driver.create({
      sandboxId: row.id,
      from:
        version.base === null
          ? { kind: 'version', versionId: version.id }
          : { kind: 'base', base: version.base },
      image: row.spec.image,
      caps: row.spec.caps,
      ...(targetOf(row.spec.image) === 'docker'
        ? { main: { argv: ownCommand(row), env: row.spec.env } }
        : {}),
    });
    if (row.spec.command) {
      await driver.startExec(row.id, execIdOf(`${row.key}/command`), {
        argv: row.spec.command,
        uid: row.spec.uid,
        cwd: row.spec.workdir,
        env: row.spec.env,
        stdin: null,
      });
    }
    await this.controllers.start(row, signal);
    for (const port of work.ports) row.ports[port] = await driver.publish(row.id, port, null);
    if (signal.aborted) throw new DenvError('sandbox_gone', `sandbox ${row.id} was deleted`);
    row.state = 'running';
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
    this.controllers.watch(row);
  }

  private async undo(sandboxId: string): Promise<void> {
    this.controllers.close(sandboxId);
    await this.context.driver.remove(sandboxId);
    this.sandboxes.forget(sandboxId);
  }

  private async turn(): Promise<void> {
    if (this.starting >= MAX_STARTS) await new Promise<void>((go) => this.queue.push(go));
    this.starting += 1;
  }

  private release(): void {
    this.starting -= 1;
    this.queue.shift()?.();
  }
}

function ownCommand({ spec }: SandboxRow): string[] | null {
  return 'command' in spec.controller ? spec.controller.command : null;
}
