import type { Socket } from 'node:net';
import { DenvError } from '../../errors';
import { ChannelError } from './channel';
import type { HudConnection } from './connection';
import { openSession, resumeSession } from './dial';
import { HudSession } from './session';

export interface HudOptions {
  /** A TCP connection to the control port, inside the sandbox. */
  connect: () => Promise<Socket>;
}

/** How long an environment that was there may take to be reached again. */
const RESUME_TIMEOUT_MS = 10_000;

/**
 * Dials until the environment has answered `hello`.
 * @throws DenvError controller_failed: no answer in time, or one that is not of HUD, at once
 */
export async function connectHud(
  options: HudOptions & { timeoutS: number; signal: AbortSignal },
): Promise<HudConnection> {
  return new HudSession(options.connect, await openSession(options), 'none');
}

/**
 * Takes up a session that an earlier server process opened: its task is parked there.
 * @param state  `started`: whether the start of its task is known to have succeeded; without it, a task that is parked there
 *   counts as started. Only a started task can be graded.
 * @throws DenvError controller_failed: not reached, or it has forgotten a started task
 */
export async function resumeHud(
  options: HudOptions & { signal: AbortSignal },
  state: { sessionId: string; started?: boolean },
): Promise<HudConnection> {
  const resumed = await reach(() => resumeSession(options, state.sessionId), options.signal);
  if (resumed.kind === 'session') {
    const task = state.started === false ? 'lost' : 'started';
    return new HudSession(options.connect, resumed.session, task);
  }
  if (state.started === true) {
    throw new DenvError('controller_failed', 'the environment has forgotten its task');
  }
  const session = await openSession({ ...options, timeoutS: RESUME_TIMEOUT_MS / 1000 });
  return new HudSession(options.connect, session, 'none');
}

async function reach<T>(attempt: () => Promise<T>, signal: AbortSignal): Promise<T> {
  const deadline = Date.now() + RESUME_TIMEOUT_MS;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof ChannelError)) throw error;
      if (Date.now() > deadline) {
        throw new DenvError(
          'controller_failed',
          `the HUD environment was not reached again: ${error.message}`,
          { cause: error },
        );
      }
    }
    signal.throwIfAborted();
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}
