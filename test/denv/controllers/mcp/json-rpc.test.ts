import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js';
import type { ControllerCall } from '../../../../denv/controllers/controller';
import { JsonRpcPeer } from '../../../../denv/controllers/mcp/json-rpc';

class LoopTransport implements Transport {
  onmessage?: (message: JSONRPCMessage) => void;
  onclose?: () => void;
  sent: JSONRPCMessage[] = [];
  fault: Error | null = null;

  start = () => Promise.resolve();
  close = () => Promise.resolve(this.onclose?.());
  send = (message: JSONRPCMessage) => {
    this.sent.push(message);
    return this.fault ? Promise.reject(this.fault) : Promise.resolve();
  };
  say(message: object): void {
    this.onmessage?.({ jsonrpc: '2.0', ...message } as JSONRPCMessage);
  }
}

afterEach(() => jest.useRealTimers());

function make() {
  const transport = new LoopTransport();
  const marks: string[] = [];
  const abort = new AbortController();
  const call = (callId: string, more: Partial<ControllerCall> = {}): ControllerCall => ({
    callId,
    method: 'tools/call',
    params: { name: 't' },
    timeoutS: 5,
    resetTimeoutOnProgress: false,
    signal: abort.signal,
    sending: () => marks.push(`sending ${transport.sent.length}`),
    sent: () => marks.push(`sent ${transport.sent.length}`),
    ...more,
  });
  return { transport, peer: new JsonRpcPeer(transport), call, marks, abort };
}

describe('JsonRpcPeer', () => {
  it('marks a call before it leaves and after', async () => {
    const { transport, peer, call, marks } = make();

    const answer = peer.request(call('a'));
    transport.say({ id: 'a', result: { ok: 1 } });

    expect(await answer).toEqual({ kind: 'result', result: { ok: 1 } });
    expect(marks).toEqual(['sending 0', 'sent 1']);
  });

  it('matches answers by id, in any order', async () => {
    const { transport, peer, call } = make();

    const answers = Promise.all([peer.request(call('a')), peer.request(call('b'))]);
    transport.say({ id: 'b', error: { code: -32602, message: 'bad' } });
    transport.say({ id: 'a', result: {} });

    expect(await answers).toEqual([
      { kind: 'result', result: {} },
      { kind: 'error', error: { code: -32602, message: 'bad' } },
    ]);
  });

  it('hands an answer that came early to the call that claims it', async () => {
    const { transport, peer, call } = make();

    transport.say({ id: 'a', result: { early: true } });

    expect(await peer.claim(call('a'))).toEqual({ kind: 'result', result: { early: true } });
  });

  it('gives up at the timeout and tells the controller', async () => {
    const { transport, peer, call } = make();

    expect(await peer.request(call('a', { timeoutS: 0.02 }))).toEqual({ kind: 'timed_out' });
    expect(transport.sent.at(-1)).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: 'a' },
    });
  });

  it('starts the time anew at progress when asked to', async () => {
    const { transport, peer, call } = make();
    jest.useFakeTimers();
    const answer = peer.request(call('a', { timeoutS: 2, resetTimeoutOnProgress: true }));

    for (let n = 0; n < 4; n += 1) {
      await jest.advanceTimersByTimeAsync(1000);
      transport.say({
        method: 'notifications/progress',
        params: { progressToken: 'a', progress: n },
      });
    }
    transport.say({ id: 'a', result: {} });

    expect(await answer).toEqual({ kind: 'result', result: {} });
    expect(transport.sent[0]).toMatchObject({ params: { _meta: { progressToken: 'a' } } });
  });

  it('tells whether a call had left when the connection broke', async () => {
    const { transport, peer, call } = make();
    const out = peer.request(call('a'));
    transport.onclose?.();

    await expect(out).rejects.toMatchObject({ name: 'ControllerLost', sent: true });
    await expect(peer.request(call('b'))).rejects.toMatchObject({ sent: false });
  });

  it('answers a ping and refuses what it offers no capability for', () => {
    const { transport } = make();

    transport.say({ id: 1, method: 'ping' });
    transport.say({ id: 2, method: 'sampling/createMessage', params: {} });

    expect(transport.sent).toEqual([
      { jsonrpc: '2.0', id: 1, result: {} },
      {
        jsonrpc: '2.0',
        id: 2,
        error: { code: -32601, message: 'not supported: sampling/createMessage' },
      },
    ]);
  });

  it('cancels a call when its operation is cancelled', async () => {
    const { transport, peer, call, abort } = make();
    const out = peer.request(call('a'));

    abort.abort();

    expect(await out).toEqual({ kind: 'error', error: { code: -32800, message: 'cancelled' } });
    expect(transport.sent.at(-1)).toMatchObject({ method: 'notifications/cancelled' });
  });
});
