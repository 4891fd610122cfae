import type { Logger } from 'pino';
import type { ExecHandle } from '../drivers/driver';

const LOOK_MS = 1000;

/**
 * Kills whatever writes more than its share of output, which is kept in files of the host: commands, controllers and the
 * sandboxes' own services alike.
 */
export class OutputGuard {
  private readonly watched = new Map<ExecHandle, string>();
  private readonly timer: NodeJS.Timeout;

  constructor(
    private readonly maxBytes: number,
    private readonly log: Logger,
  ) {
    this.timer = setInterval(() => {
      for (const [handle, sandbox] of this.watched) void this.look(handle, sandbox);
    }, LOOK_MS);
    this.timer.unref();
  }

  /** Watches an exec until its sandbox is forgotten, or the returned function is called. */
  watch(handle: ExecHandle, sandbox: string): () => void {
    this.watched.set(handle, sandbox);
    return () => void this.watched.delete(handle);
  }

  forget(sandbox: string): void {
    for (const [handle, owner] of this.watched) {
      if (owner === sandbox) this.watched.delete(handle);
    }
  }

  close(): void {
    clearInterval(this.timer);
    this.watched.clear();
  }

  private async look(handle: ExecHandle, sandbox: string): Promise<void> {
    try {
      const bytes = await handle.outputBytes();
      if (bytes <= this.maxBytes || !this.watched.delete(handle)) return;
      this.log.warn({ sandbox, bytes }, 'killed what wrote more than its share of output');
      await handle.kill();
    } catch (error) {
      // Its files go with its sandbox, which may be deleted at this moment.
      this.log.debug({ err: error, sandbox }, 'the size of an output could not be told');
    }
  }
}
