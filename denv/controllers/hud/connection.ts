import type { HudEnvironment } from '../../../contracts/denv';
import type { ControllerConnection } from '../controller';

/** HUD's control channel, with the tools of its capabilities behind `tools/list` and `tools/call`. */
export interface HudConnection extends ControllerConnection {
  /** What the environment said about itself in its answer to hello. */
  readonly environment: HudEnvironment;
  /** Hangs up without ending the task: the environment parks it, and `resumeHud` continues it. `close` ends the task. */
  release(): void;
}
