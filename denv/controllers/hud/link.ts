import type { Socket } from 'node:net';
import { DenvError } from '../../errors';
import { unlessAborted } from '../unless-aborted';
import { ChannelError, type HudChannel, type HudReply, type RequestHooks } from './channel';
import { type OpenSession, openSession, resumeSession } from './dial';

const HEARTBEAT_MS = 60_000;
const HEARTBEAT_TIMEOUT_MS = 10_000;
const CANCEL_TIMEOUT_MS = 2000;
const FAREWELL_TIMEOUT_MS = 2000;
const REDIAL_TIMEOUT_S = 10;

/** One session's control connection: kept warm while nothing runs, and made anew by its id when it has broken. */
export class HudLink {
  private readonly heartbeat: NodeJS.Timeout;
  /** A call that runs the task's own code is out: until it ends, only a cancel gets through. */
  private busy = false;

  constructor(
    private readonly connect: () => Promise<Socket>,
    private current: OpenSession,
  ) {
    this.heartbeat = setInterval(() => void this.beat(), HEARTBEAT_MS);
    this.heartbeat.unref();
  }

  get session(): OpenSession {
    return this.current;
  }

  /**
   * The channel, connected again if need be.
   * @param atStake  a task was started in this session: where it is gone, a new session would be no help
   * @throws ChannelError not reached; DenvError controller_failed when the task is gone
   */
  async ready(signal: AbortSignal, atStake: boolean): Promise<HudChannel> {
    if (await this.answers(signal)) return this.current.channel;
    const where = { connect: this.connect, signal };
    const resumed = await resumeSession(where, this.current.sessionId);
    if (resumed.kind === 'session') {
      this.current = resumed.session;
    } else if (atStake) {
      throw new DenvError('controller_failed', 'the environment has forgotten its task');
    } else {
      this.current = await openSession({ ...where, timeoutS: REDIAL_TIMEOUT_S });
    }
    return this.current.channel;
  }

  /** Asked before each call that cannot be asked twice: one sent into a connection that is dead would be lost. */
  private async answers(signal: AbortSignal): Promise<boolean> {
    const { channel, sessionId } = this.current;
    if (!channel.open) return false;
    try {
      await unlessAborted(channel.request('hello', { session_id: sessionId }), signal);
      return true;
    } catch (error) {
      if (error instanceof ChannelError && error.kind === 'lost') return false;
      throw error;
    }
  }

  /**
   * Runs the task's own code, for as long as it takes. When `limit` aborts, it is cancelled in the environment too.
   * @throws ChannelError; the reason of `limit`
   */
  async run(
    channel: HudChannel,
    method: 'tasks.start' | 'tasks.grade',
    params: object,
    limit: AbortSignal,
    hooks: RequestHooks = {},
  ): Promise<HudReply> {
    limit.throwIfAborted();
    this.busy = true;
    try {
      return await unlessAborted(channel.request(method, params, hooks), limit);
    } catch (error) {
      if (limit.aborted && error === limit.reason) await this.cancelTask();
      throw error;
    } finally {
      this.busy = false;
    }
  }

  /** Ends the session's task. An environment that does not say so soon is hung up on, which ends a running grade as well. */
  async cancelTask(): Promise<void> {
    const { channel } = this.current;
    if (!channel.open) return;
    const limit = AbortSignal.timeout(CANCEL_TIMEOUT_MS);
    await unlessAborted(channel.request('tasks.cancel', {}), limit).catch(() => channel.close());
  }

  /** Hangs up, unless a call is out: the environment parks the task, and the next call, or a later link, resumes it. */
  park(): void {
    if (!this.busy) this.current.channel.close();
  }

  /** Ends everything: the task if there is one, the session, the connection. Takes two seconds at most. */
  async farewell(atStake: boolean): Promise<void> {
    clearInterval(this.heartbeat);
    const limit = AbortSignal.timeout(FAREWELL_TIMEOUT_MS);
    try {
      if (!this.current.channel.open && !atStake) return;
      const channel = await this.ready(limit, true);
      const cancelled = atStake ? channel.request('tasks.cancel', {}) : Promise.resolve();
      await unlessAborted(Promise.all([cancelled, channel.request('bye', {})]), limit);
    } catch {
      // Nothing to be done for an environment that does not answer: it is left, or ended by whoever started it.
    } finally {
      this.current.channel.close();
    }
  }

  /** Lets go without a word. */
  release(): void {
    clearInterval(this.heartbeat);
    this.current.channel.close();
  }

  /** Keeps what is between us from taking the connection for dead, and finds out when it is. */
  private async beat(): Promise<void> {
    const { channel, sessionId } = this.current;
    if (this.busy || !channel.open) return;
    const limit = AbortSignal.timeout(HEARTBEAT_TIMEOUT_MS);
    const hello = channel.request('hello', { session_id: sessionId });
    await unlessAborted(hello, limit).catch(() => this.busy || channel.close());
  }
}
