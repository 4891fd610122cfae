import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { DenvError } from '../../errors';
import { unlessAborted } from '../unless-aborted';
import { Binding } from './capabilities';
import { ChannelError, HudChannel } from './channel';

/** The answer to a hello that asked for a session by its id. */
export type Resumed = { kind: 'session'; session: OpenSession } | { kind: 'unknown' };

export interface OpenSession {
  channel: HudChannel;
  sessionId: string;
  environment: { name: string; version: string | null };
  bindings: Binding[];
}

export interface DialOptions {
  connect: () => Promise<Socket>;
  signal: AbortSignal;
}

/** An environment that accepts and says nothing may be one that hangs, or a proxy before one that is not there yet. */
const HELLO_TIMEOUT_MS = 10_000;
/** How long a session may be held by a connection that its server has not yet noticed to be dead. */
const LIVE_TIMEOUT_MS = 15_000;

const HelloResult = z.object({
  session_id: z.string().min(1),
  env: z.object({ name: z.string(), version: z.string().nullish() }),
  bindings: z.array(Binding).default([]),
});

/** Dials until a new session has been answered for. @throws DenvError controller_failed */
export async function openSession(
  options: DialOptions & { timeoutS: number },
): Promise<OpenSession> {
  const deadline = Date.now() + options.timeoutS * 1000;
  for (let pauseMs = 10; ; pauseMs = Math.min(pauseMs * 1.3, 250)) {
    const left = deadline - Date.now();
    const last = await tryHello(options, {}, Math.max(left, 1));
    if ('session' in last) return last.session;
    if ('refused' in last) throw notHud(`it refused hello: ${last.refused}`);
    if (Date.now() + pauseMs > deadline) {
      throw new DenvError(
        'controller_failed',
        `the HUD environment did not answer hello within ${options.timeoutS} s: ${last.failed}`,
      );
    }
    await pause(pauseMs, options.signal);
  }
}

/**
 * Takes up a parked session. While an earlier connection to it counts as live, asks again for some seconds.
 * @throws ChannelError when the environment cannot be reached; DenvError controller_failed when it is not one of HUD
 */
export async function resumeSession(options: DialOptions, sessionId: string): Promise<Resumed> {
  const deadline = Date.now() + LIVE_TIMEOUT_MS;
  for (;;) {
    const last = await tryHello(options, { session_id: sessionId }, HELLO_TIMEOUT_MS);
    if ('failed' in last) throw new ChannelError('lost', last.failed, false);
    if ('session' in last) {
      // Another id than was asked for is another session, without our task.
      if (last.session.sessionId === sessionId) return { kind: 'session', session: last.session };
      last.session.channel.close();
      return { kind: 'unknown' };
    }
    if (/unknown session/.test(last.refused)) return { kind: 'unknown' };
    if (!/live connection/.test(last.refused)) throw notHud(`it refused hello: ${last.refused}`);
    if (Date.now() > deadline) throw new ChannelError('lost', last.refused, false);
    await pause(250, options.signal);
  }
}

type Hello = { session: OpenSession } | { refused: string } | { failed: string };

async function tryHello(options: DialOptions, params: object, withinMs: number): Promise<Hello> {
  const limit = AbortSignal.any([
    options.signal,
    AbortSignal.timeout(Math.ceil(Math.min(withinMs, HELLO_TIMEOUT_MS))),
  ]);
  let channel: HudChannel | null = null;
  try {
    channel = new HudChannel(await dial(options.connect, limit));
    const reply = await unlessAborted(channel.request('hello', params), limit);
    if ('error' in reply) {
      channel.close();
      return { refused: reply.error.message };
    }
    const hello = HelloResult.safeParse(reply.result);
    if (!hello.success) throw notHud('its answer to hello is not one of HUD');
    const { env, session_id: sessionId, bindings } = hello.data;
    const environment = { name: env.name, version: env.version ?? null };
    return { session: { channel, sessionId, environment, bindings } };
  } catch (error) {
    channel?.close();
    options.signal.throwIfAborted();
    // `unavailable`: a driver's word for a port on which nothing listens yet.
    if (error instanceof DenvError && error.code !== 'unavailable') throw error;
    if (error instanceof ChannelError && error.kind === 'protocol') throw notHud(error.message);
    if (limit.aborted) return { failed: channel ? 'no answer' : 'no connection' };
    return { failed: error instanceof Error ? error.message : String(error) };
  }
}

/** A connection; one that comes too late is closed. */
async function dial(connect: () => Promise<Socket>, limit: AbortSignal): Promise<Socket> {
  const dialling = connect();
  try {
    return await unlessAborted(dialling, limit);
  } catch (error) {
    dialling.then(
      (socket) => socket.destroy(),
      () => undefined,
    );
    throw error;
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await unlessAborted(sleep(ms), signal);
}

function notHud(why: string): DenvError {
  return new DenvError('controller_failed', `this is no HUD control channel: ${why}`);
}
