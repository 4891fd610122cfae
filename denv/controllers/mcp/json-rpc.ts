import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage, RequestId } from '@modelcontextprotocol/sdk/types.js';
import { DenvError } from '../../errors';
import {
  type CallAnswer,
  cancelledAnswer,
  type ControllerCall,
  ControllerLost,
} from '../controller';

interface Pending {
  answer(answer: CallAnswer): void;
  lost(error: Error): void;
  progress(): void;
}

/** Answers that came before anybody asked for them, kept for a call that a restarted server still has to claim. */
const UNCLAIMED_MAX = 64;

/**
 * The client's half of JSON-RPC over an MCP transport. Unlike the SDK's Client its request ids are given by the caller, so an
 * answer can be claimed by a later server process, and no time limit is set but the call's own.
 */
export class JsonRpcPeer {
  private readonly pending = new Map<RequestId, Pending>();
  private readonly unclaimed = new Map<RequestId, CallAnswer>();
  /** Why no call can be answered any more, by whether it was sent. */
  private ended: ((sent: boolean) => Error) | null = null;

  constructor(private readonly transport: Transport) {
    transport.onmessage = (message) => this.receive(message);
    transport.onclose = () => this.fail('the connection to the controller was closed');
  }

  /** Sends a request and waits for its answer. @throws ControllerLost; DenvError controller_failed */
  async request(call: ControllerCall): Promise<CallAnswer> {
    if (this.ended) throw this.ended(false);
    const answer = this.claim(call);
    call.sending();
    try {
      await this.transport.send({
        jsonrpc: '2.0',
        id: call.callId,
        method: call.method,
        params: call.resetTimeoutOnProgress
          ? { ...call.params, _meta: { ...metaOf(call.params), progressToken: call.callId } }
          : call.params,
      });
    } catch (error) {
      this.pending.get(call.callId)?.lost(asLost(error));
    }
    call.sent();
    return answer;
  }

  /** Waits for the answer of a request that was sent before, by this process or an earlier one. */
  claim(call: ControllerCall): Promise<CallAnswer> {
    const early = this.unclaimed.get(call.callId);
    if (early) {
      this.unclaimed.delete(call.callId);
      return Promise.resolve(early);
    }
    if (this.ended) return Promise.reject(this.ended(true));
    return new Promise<CallAnswer>((resolve, reject) => {
      const giveUp = (answer: CallAnswer, reason: string) => {
        void this.notify('notifications/cancelled', { requestId: call.callId, reason });
        settle(() => resolve(answer));
      };
      const expire = () => giveUp({ kind: 'timed_out' }, `no answer within ${call.timeoutS} s`);
      const cancel = () => giveUp(cancelledAnswer, 'cancelled');
      let timer = setTimeout(expire, call.timeoutS * 1000);
      const settle = (finish: () => void) => {
        clearTimeout(timer);
        call.signal.removeEventListener('abort', cancel);
        this.pending.delete(call.callId);
        finish();
      };
      this.pending.set(call.callId, {
        answer: (answer) => settle(() => resolve(answer)),
        lost: (error) => settle(() => reject(error)),
        progress: () => {
          if (!call.resetTimeoutOnProgress) return;
          clearTimeout(timer);
          timer = setTimeout(expire, call.timeoutS * 1000);
        },
      });
      if (call.signal.aborted) cancel();
      else call.signal.addEventListener('abort', cancel);
    });
  }

  /** Sends a notification; nobody waits for it, and a broken connection shows at the next request. */
  async notify(method: string, params: Record<string, unknown> = {}): Promise<void> {
    await this.transport.send({ jsonrpc: '2.0', method, params }).catch(() => undefined);
  }

  /** Rejects one call, whose own stream ended without an answer. */
  lose(callId: RequestId, message: string): void {
    this.pending.get(callId)?.lost(new ControllerLost(message, true));
  }

  /** Rejects every call: the connection is lost, and another one may be opened. */
  fail(message: string): void {
    this.end((sent) => new ControllerLost(message, sent));
  }

  /** Rejects every call as the controller's own failure, which no other connection would mend. */
  failController(message: string): void {
    this.end(() => new DenvError('controller_failed', message));
  }

  private end(because: (sent: boolean) => Error): void {
    this.ended ??= because;
    for (const pending of this.pending.values()) pending.lost(because(true));
  }

  private receive(message: JSONRPCMessage): void {
    if ('method' in message) {
      if ('id' in message) void this.refuse(message.id, message.method);
      else if (message.method === 'notifications/progress') this.progress(message.params);
      return;
    }
    if (message.id === undefined) return;
    const answer: CallAnswer =
      'error' in message
        ? { kind: 'error', error: message.error }
        : { kind: 'result', result: message.result };
    const pending = this.pending.get(message.id);
    if (pending) return pending.answer(answer);
    this.unclaimed.set(message.id, answer);
    const oldest = this.unclaimed.keys().next();
    if (this.unclaimed.size > UNCLAIMED_MAX && !oldest.done) this.unclaimed.delete(oldest.value);
  }

  private progress(params: Record<string, unknown> | undefined): void {
    const token = params?.['progressToken'];
    if (typeof token === 'string') this.pending.get(token)?.progress();
  }

  /** Answers what a controller asks of its client: pings only; we offer it no capability. */
  private async refuse(id: RequestId, method: string): Promise<void> {
    const reply: JSONRPCMessage =
      method === 'ping'
        ? { jsonrpc: '2.0', id, result: {} }
        : { jsonrpc: '2.0', id, error: { code: -32601, message: `not supported: ${method}` } };
    await this.transport.send(reply).catch(() => undefined);
  }
}

function metaOf(params: Record<string, unknown>): object {
  const meta = params['_meta'];
  return typeof meta === 'object' && meta !== null ? meta : {};
}

function asLost(error: unknown): ControllerLost {
  if (error instanceof ControllerLost) return error;
  return new ControllerLost(error instanceof Error ? error.message : String(error), true, error);
}
