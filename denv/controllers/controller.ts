/** A controller's own answer to one call, before it is shaped for the wire. */
export type CallAnswer =
  | { kind: 'result'; result: Record<string, unknown> }
  | { kind: 'error'; error: { code: number; message: string; data?: unknown } }
  | { kind: 'timed_out' };

/** The answer to a call that its caller took back. */
export const cancelledAnswer: CallAnswer = {
  kind: 'error',
  error: { code: -32800, message: 'cancelled' },
};

/**
 * One call through a connection. `sending` is called right before the request leaves, `sent` once it has left: what the
 * server's journal needs to know whether a call may have had its effect.
 */
export interface ControllerCall {
  /** Unique for ever; the JSON-RPC id of the request. */
  callId: string;
  method: string;
  params: Record<string, unknown>;
  timeoutS: number;
  resetTimeoutOnProgress: boolean;
  signal: AbortSignal;
  sending: () => void;
  sent: () => void;
}

/** The live connection to a sandbox's controller. It is held by the server, so it outlives every worker. */
export interface ControllerConnection {
  /**
   * @throws ControllerLost when the connection broke with the call still out
   */
  call(call: ControllerCall): Promise<CallAnswer>;
  /** Waits for the answer of a call that an earlier server process sent; null where this kind keeps no answers. */
  awaitAnswer: ((call: ControllerCall) => Promise<CallAnswer>) | null;
  /** What a later server process needs to continue the session. */
  state(): { sessionId: string | null; protocolVersion: string | null };
  close(): void;
}

/** The connection ended while a call was out. `sent` says whether the controller may have seen it. */
export class ControllerLost extends Error {
  override readonly name = 'ControllerLost';
  constructor(
    message: string,
    readonly sent: boolean,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}
