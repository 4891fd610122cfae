import type { ForkReply, Sandbox } from '../../contracts/denv';
import { toDenvError } from '../errors';
import { forkChildKey, sandboxIdOf } from '../ids';
import type { ServerContext } from './context';
import type { Controllers } from './controllers';
import { Launcher } from './launch';
import { afterUndo, type OperationContext, RolledBack } from './operations';
import type { CreateWork, ForkWork, Preparation } from './preparation';
import type { VersionRow } from './rows';
import type { Sandboxes } from './sandboxes';

/** Birth and death of sandboxes: create, fork and delete, each redone whole when the server died in the middle of it. */
export class Lifecycle {
  private readonly launcher: Launcher;
  private readonly deleting = new Map<string, Promise<void>>();

  constructor(
    private readonly context: ServerContext,
    private readonly sandboxes: Sandboxes,
    private readonly controllers: Controllers,
    private readonly preparation: Preparation,
  ) {
    this.launcher = new Launcher(context, sandboxes, controllers);
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
    if (operation.resumed) await this.launcher.undo(work.sandboxId);
    return this.launcher.launch(operation.key, work, operation.signal);
  }

  private async fork(operation: OperationContext): Promise<ForkReply> {
    const work = operation.request as ForkWork; // made by Preparation.fork
    const version = await this.forkedVersion(operation.key, work);
    const keys = Array.from({ length: work.count }, (_, n) => forkChildKey(operation.key, n));
    const children = await Promise.all(
      keys.map((key) => this.forkChild(key, work, version, operation)),
    );
    return { version: version.id, pausedMs: version.pausedMs, children };
  }

  private async forkChild(
    key: string,
    { labels, leaseS, ports }: ForkWork,
    { id: version, spec, sandbox }: VersionRow,
    { resumed, signal }: OperationContext,
  ): Promise<ForkReply['children'][number]> {
    const sandboxId = sandboxIdOf(key);
    const forkedFrom = { sandbox, version };
    try {
      if (resumed) await this.launcher.undo(sandboxId);
      this.preparation.refuseGone(sandboxId);
      const work = { sandboxId, spec, version, forkedFrom, labels, leaseS, ports };
      return { sandbox: await this.launcher.launch(key, work, signal) };
    } catch (error) {
      const cause = error instanceof RolledBack ? error.cause : error;
      return { error: toDenvError(cause).toBody().error };
    }
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
}
