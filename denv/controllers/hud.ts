import type { Socket } from 'node:net';
import type { HudEnvironment } from '../../contracts/denv';
import type { ControllerConnection } from './controller';

export interface HudOptions {
  /** A TCP connection to the control port, inside the sandbox. */
  connect: () => Promise<Socket>;
}

/** HUD's control channel, with the tools of its capabilities behind `tools/list` and `tools/call`. */
export interface HudConnection extends ControllerConnection {
  /** What the environment said of itself. */
  readonly environment: HudEnvironment;
}

/** Dials until the environment has answered `hello`. @throws DenvError controller_failed */
export function connectHud(
  options: HudOptions & { timeoutS: number; signal: AbortSignal },
): Promise<HudConnection> {
  throw new Error(`not there yet: ${options.timeoutS}`);
}

/** Takes up a session that an earlier server process opened: its task is parked there. @throws DenvError controller_failed */
export function resumeHud(
  options: HudOptions & { signal: AbortSignal },
  state: { sessionId: string },
): Promise<HudConnection> {
  throw new Error(`not there yet: ${state.sessionId} ${options.signal.aborted}`);
}
