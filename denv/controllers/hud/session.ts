import type { Socket } from 'node:net';
import type { HudEnvironment } from '../../../contracts/denv';
import {
  type CallAnswer,
  cancelledAnswer,
  type ControllerCall,
  ControllerLost,
} from '../controller';
import { unlessAborted } from '../unless-aborted';
import { toCapabilities } from './capabilities';
import { ChannelError } from './channel';
import type { HudConnection } from './connection';
import type { OpenSession } from './dial';
import { HudFault } from './faults';
import { HudLink } from './link';
import { HudRun, type TaskState } from './run';
import { HudTools } from './tools';

/** A session with an environment, as the server calls it: its task, and the tools of its capabilities. */
export class HudSession implements HudConnection {
  readonly environment: HudEnvironment;
  readonly awaitAnswer = null;
  private readonly link: HudLink;
  private readonly run: HudRun;
  private readonly tools: HudTools;
  /** The environment takes one task call at a time. */
  private turn: Promise<unknown> = Promise.resolve();
  private closed = false;

  constructor(connect: () => Promise<Socket>, opened: OpenSession, task: TaskState) {
    this.environment = {
      ...opened.environment,
      capabilities: toCapabilities(opened.bindings),
    };
    this.link = new HudLink(connect, opened);
    this.run = new HudRun(this.link, task);
    this.tools = new HudTools(connect, opened.bindings);
  }

  state() {
    return { sessionId: this.link.session.sessionId, protocolVersion: 'hud/1.0' };
  }

  async call(call: ControllerCall): Promise<CallAnswer> {
    if (this.closed)
      throw new ControllerLost('the session with the HUD environment was closed', false);
    try {
      return await this.route(call);
    } catch (error) {
      throw this.lost(error);
    }
  }

  close(): void {
    if (this.closed) return;
    this.closed = true;
    this.tools.close();
    void this.link.farewell(this.run.atStake);
  }

  release(): void {
    if (this.closed) return;
    this.closed = true;
    this.tools.close();
    this.link.release();
  }

  private route(call: ControllerCall): Promise<CallAnswer> {
    switch (call.method) {
      case 'tools/list':
        return this.tools.list(call);
      case 'tools/call':
        return this.tools.call(call);
      case 'hud/cancel':
        return this.cancel();
      case 'hud/tasks':
        return this.inTurn(call, async (limit) => ({
          environment: this.environment,
          tasks: await this.run.list(limit),
        }));
      case 'hud/start':
        return this.inTurn(call, (limit) => this.run.start(call, limit));
      case 'hud/grade':
        return this.inTurn(call, async (limit) => ({ ...(await this.run.grade(call, limit)) }));
      default:
        return Promise.resolve({
          kind: 'error',
          error: { code: -32601, message: `no method ${call.method}` },
        });
    }
  }

  /** Runs at once and not in turn, as it ends the call that is out. */
  private async cancel(): Promise<CallAnswer> {
    await this.run.cancel();
    return { kind: 'result', result: { cancelled: true } };
  }

  private async inTurn(
    call: ControllerCall,
    work: (limit: AbortSignal) => Promise<Record<string, unknown>>,
  ): Promise<CallAnswer> {
    const limit = AbortSignal.any([
      call.signal,
      AbortSignal.timeout(Math.ceil(call.timeoutS * 1000)),
    ]);
    const { promise: done, resolve: finish } = Promise.withResolvers<void>();
    const before = this.turn;
    this.turn = before.then(() => done);
    try {
      await unlessAborted(before, limit);
      return { kind: 'result', result: await work(limit) };
    } catch (error) {
      if (limit.aborted && error === limit.reason) {
        return call.signal.aborted ? cancelledAnswer : { kind: 'timed_out' };
      }
      if (error instanceof HudFault) {
        // Our own goodbye interrupts what is out.
        if (this.closed)
          throw new ControllerLost('the session with the HUD environment was closed', true);
        return this.run.cancelled ? cancelledAnswer : error.toAnswer();
      }
      if (error instanceof ChannelError && error.kind === 'protocol') {
        return new HudFault('protocol', error.message).toAnswer();
      }
      throw error;
    } finally {
      finish();
    }
  }

  /** After a loss the server may forget this connection and resume the session by another, which a live one would bar. */
  private lost(error: unknown): unknown {
    if (!(error instanceof ChannelError) && !(error instanceof ControllerLost)) return error;
    this.link.park();
    return error instanceof ControllerLost
      ? error
      : new ControllerLost(error.message, error.sent, error);
  }
}
