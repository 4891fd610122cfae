import type { Socket } from 'node:net';
import { HelperProcess, isDeath } from './helper-process';
import { exchange, HelperError } from './helper-socket';
import type { Reply } from './helper-socket';
import type { Layout } from './layout';

export interface SnapshotRequest {
  source: string;
  target: string;
  readOnly: boolean;
  /** Write out what is dirty before anything stands still. */
  flush: boolean;
  /** Directory of the cgroup to freeze meanwhile. */
  cgroup: string | null;
  /** Kill what is frozen instead of thawing it. */
  kill: boolean;
}

/** One process inside a sandbox: its network namespace is the sandbox's. */
export interface NamespaceOf {
  pid: number;
  start: string;
}

/**
 * Asks the host helper of one data directory. When the helper is gone it is started anew, `onRestart` adds the published ports
 * again, and what may be done twice is asked again.
 */
export class HelperClient {
  private readonly helper: HelperProcess;

  constructor(layout: Layout, allowedUids: number[], onRestart: () => Promise<void>) {
    this.helper = new HelperProcess(layout, allowedUids, onRestart);
  }

  /** Starts the helper, or adopts the one that runs. `restarted` tells that published ports have to be added again. */
  ensure(): Promise<{ restarted: boolean }> {
    return this.helper.ensure();
  }

  /** Stops watching over the helper, which runs on. */
  letGo(): void {
    this.helper.letGo();
  }

  quit(): Promise<void> {
    return this.helper.quit();
  }

  async createSubvolume(path: string): Promise<void> {
    await this.ask({ op: 'subvolume', path });
  }

  /** Deleting what is not there is success. */
  async deleteSubvolume(path: string): Promise<void> {
    await this.askTwice({ op: 'delete', path });
  }

  async makeReadOnly(path: string): Promise<void> {
    await this.askTwice({ op: 'readOnly', path });
  }

  /** A writable copy of a tree, at once. @throws HelperError `exists` when the target is there */
  async copy(source: string, target: string): Promise<void> {
    const still = { flush: false, cgroup: null, kill: false };
    await this.snapshot({ source, target, readOnly: false, ...still });
  }

  /**
   * The kernel makes a snapshot whole or not at all, so a target that is there after the helper's death was made before it.
   * @throws HelperError `exists` when the target was there
   */
  async snapshot(
    request: SnapshotRequest,
  ): Promise<{ flushMs: number | null; pausedMs: number | null }> {
    let died = false;
    try {
      const attempt = () => this.ask({ op: 'snapshot', ...request });
      const reply = await this.twice(attempt, () => (died = true));
      return {
        flushMs: reply.flushMs as number | null,
        pausedMs: reply.pausedMs as number | null,
      };
    } catch (error) {
      if (!died || !(error instanceof HelperError) || error.code !== 'exists') throw error;
      return { flushMs: null, pausedMs: null };
    }
  }

  /** Whether a tree has changed since it was `since`, which it was made from or which was made from it; in doubt, yes. */
  async changed(
    tree: string,
    since: string,
  ): Promise<{ changed: boolean; flushMs: number | null }> {
    const reply = await this.askTwice({ op: 'changed', tree, since });
    return { changed: reply.changed as boolean, flushMs: reply.flushMs as number | null };
  }

  /** Resolves when no tree work is under way. */
  async drain(): Promise<void> {
    await this.askTwice({ op: 'drain' });
  }

  /** Gives an exec the input in its `stdin` file and then its end. Does nothing the second time. */
  async feed(directory: string): Promise<void> {
    await this.askTwice({ op: 'feed', directory });
  }

  connect(where: NamespaceOf, port: number): Promise<Socket> {
    return this.twice(async () => {
      const socket = await this.helper.connect();
      try {
        await exchange(socket, { op: 'connect', ...where, port });
      } catch (error) {
        socket.destroy();
        throw error;
      }
      return socket;
    });
  }

  /** Publishes a sandbox's port on loopback. @returns the host port */
  async publish(
    id: string,
    where: NamespaceOf,
    port: number,
    hostPort: number | null,
  ): Promise<number> {
    const reply = await this.askTwice({ op: 'publish', id, ...where, port, hostPort });
    return reply.hostPort as number;
  }

  async unpublish(id: string): Promise<void> {
    await this.askTwice({ op: 'unpublish', id });
  }

  private askTwice(request: object): Promise<Reply> {
    return this.twice(() => this.ask(request));
  }

  private async ask(request: object): Promise<Reply> {
    const socket = await this.helper.connect();
    return exchange(socket, request).finally(() => socket.destroy());
  }

  /** Makes a request that may be done twice: when the helper dies in the middle, it is asked again, once. */
  private async twice<T>(attempt: () => Promise<T>, onDeath?: () => void): Promise<T> {
    try {
      return await attempt();
    } catch (error) {
      if (!isDeath(error)) throw error;
      onDeath?.();
      await this.helper.ensure(); // Not before the old one is wholly gone.
      return attempt();
    }
  }
}
