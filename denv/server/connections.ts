import type { ControllerConnection } from '../controllers/controller';
import { connectHud, resumeHud } from '../controllers/hud/connect';
import type { HudConnection } from '../controllers/hud/connection';
import { connectMcpHttp, resumeMcpHttp } from '../controllers/mcp/http';
import { connectMcpStdio, resumeMcpStdio } from '../controllers/mcp/stdio';
import type { ExecHandle, SandboxDriver } from '../drivers/driver';
import { DenvError } from '../errors';
import type { SandboxRow } from './rows';
import { stoppedError } from './views';

/** How long a HUD environment may take to notice that the connection of an earlier server process is gone. */
const RESUME_MS = 60_000;

interface Opening {
  row: SandboxRow;
  /** The controller's process, where the server started it. */
  handle: ExecHandle | null;
  driver: SandboxDriver;
}

/** The first connection to a controller of its kind: there once it has answered. */
export async function openConnection({
  row,
  handle,
  driver,
  signal,
}: Opening & { signal: AbortSignal }): Promise<ControllerConnection> {
  const { controller } = row.spec;
  switch (controller.kind) {
    case 'shell':
      throw new DenvError('internal', 'a shell has no connection');
    case 'mcp-stdio':
      if (!handle) throw new DenvError('internal', 'a stdio controller without a process');
      return connectMcpStdio({ handle, timeoutS: controller.timeoutS, signal });
    case 'mcp-http':
      return connectMcpHttp({
        ...httpTarget(driver, row.id, controller),
        timeoutS: controller.timeoutS,
        signal,
      });
    case 'hud':
      return connectHud({
        connect: () => driver.connect(row.id, controller.port),
        timeoutS: controller.timeoutS,
        signal,
      });
  }
}

/** Goes on with what an earlier server process, or a connection that broke, has left. */
export async function resumeConnection({
  row,
  handle,
  driver,
}: Opening): Promise<ControllerConnection> {
  const { controller } = row.spec;
  const { protocolVersion, sessionId } = row.controller;
  if (controller.kind === 'shell' || protocolVersion === null) {
    throw new DenvError('controller_failed', `sandbox ${row.id} has no controller to call`);
  }
  if (controller.kind === 'mcp-stdio') {
    // One that has ended may have answered before: its log is still there to tell.
    if (!handle) throw stoppedError(row);
    return resumeMcpStdio(handle, protocolVersion);
  }
  if (row.state === 'stopped') throw stoppedError(row);
  if (controller.kind === 'mcp-http') {
    return resumeMcpHttp(httpTarget(driver, row.id, controller), { sessionId, protocolVersion });
  }
  if (sessionId === null) throw new DenvError('internal', `${row.id} has no HUD session`);
  return resumeHud(
    {
      connect: () => driver.connect(row.id, controller.port),
      signal: AbortSignal.timeout(RESUME_MS),
    },
    { sessionId, started: row.controller.hudStart !== undefined },
  );
}

export const isHud = (connection: ControllerConnection): connection is HudConnection =>
  'environment' in connection;

function httpTarget(
  driver: SandboxDriver,
  sandboxId: string,
  { port, path }: { port: number; path: string },
) {
  return { connect: () => driver.connect(sandboxId, port), port, path };
}
