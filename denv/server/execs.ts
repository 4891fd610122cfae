import type { ExecEnd, ExecHandle, ExecSpec } from '../drivers/driver';
import { DenvError } from '../errors';
import { execIdOf } from '../ids';
import type { ServerContext } from './context';
import type { OperationContext } from './operations';
import { RolledBack } from './operations';
import type { Sandboxes } from './sandboxes';

export interface ExecOptions extends ExecSpec {
  timeoutS: number;
  maxOutputBytes: number;
}

export interface ExecOutcome {
  exitCode: number | null;
  stdout: Buffer;
  stderr: Buffer;
  truncated: boolean;
  timedOut: boolean;
  durationS: number;
}

/**
 * Runs one command to its end, as part of a keyed operation. It is held outside the server: a restarted server finds it by the
 * operation's key, with its output and exit code, and goes on with the time it had left.
 * @throws DenvError sandbox_stopped; outcome_unknown when what held it was killed
 */
export async function runExec(
  context: ServerContext,
  sandboxes: Sandboxes,
  operation: OperationContext,
  sandboxId: string,
  options: ExecOptions,
): Promise<ExecOutcome> {
  const execId = execIdOf(operation.key);
  const handle = await openOrStart(context, sandboxes, operation, sandboxId, execId, options);
  const startedAt = Number(operation.phase['startedAt']);
  const end = await waitForEnd(context, handle, {
    sandboxId,
    signal: operation.signal,
    deadline: startedAt + options.timeoutS * 1000,
  });
  const output = await handle.output(options.maxOutputBytes);
  operation.afterFinish(() => handle.remove());
  if (end.kind === 'killed') {
    const row = sandboxes.find(sandboxId);
    if (row) await sandboxes.checkAlive(row);
  }
  if (end.kind === 'lost') {
    const version = operation.phase['version'];
    throw new DenvError('outcome_unknown', `what held the command in ${sandboxId} was killed`, {
      details: version === undefined ? {} : { version },
    });
  }
  return {
    exitCode: end.kind === 'exited' ? end.exitCode : null,
    ...output,
    timedOut: end.kind === 'timed_out',
    durationS: (Date.now() - startedAt) / 1000,
  };
}

async function openOrStart(
  context: ServerContext,
  sandboxes: Sandboxes,
  operation: OperationContext,
  sandboxId: string,
  execId: string,
  options: ExecOptions,
): Promise<ExecHandle> {
  if (operation.resumed) {
    const running = await context.driver.openExec(sandboxId, execId);
    if (running) return running;
  }
  try {
    sandboxes.running(sandboxId);
    operation.setPhaseRelaxed({ startedAt: Date.now() });
    await context.driver.startExec(sandboxId, execId, options);
  } catch (error) {
    const row = sandboxes.find(sandboxId);
    if (row) await sandboxes.checkAlive(row);
    if (row?.state === 'stopped') sandboxes.running(sandboxId);
    throw error instanceof DenvError ? error : new RolledBack(error);
  }
  const handle = await context.driver.openExec(sandboxId, execId);
  if (!handle) throw new DenvError('internal', `exec ${execId} in ${sandboxId} left no trace`);
  return handle;
}

async function waitForEnd(
  { log, outputGuard }: ServerContext,
  handle: ExecHandle,
  { sandboxId, signal, deadline }: { sandboxId: string; signal: AbortSignal; deadline: number },
): Promise<ExecEnd | { kind: 'timed_out' }> {
  let timedOut = false;
  const kill = () =>
    void handle.kill().catch((error: unknown) => {
      log.warn({ err: error, sandbox: sandboxId }, 'a command could not be killed');
    });
  const timer = setTimeout(
    () => {
      timedOut = true;
      kill();
    },
    Math.max(0, deadline - Date.now()),
  );
  const unguard = outputGuard.watch(handle, sandboxId);
  if (signal.aborted) kill();
  else signal.addEventListener('abort', kill);
  try {
    const end = await handle.ended();
    return timedOut && end.kind !== 'exited' ? { kind: 'timed_out' } : end;
  } finally {
    clearTimeout(timer);
    unguard();
    signal.removeEventListener('abort', kill);
  }
}

/** UTF-8 text of output that may have been cut in the middle of a character. */
export function asText(bytes: Buffer): string {
  return bytes.toString('utf8');
}
