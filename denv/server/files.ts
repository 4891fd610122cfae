import { randomUUID } from 'node:crypto';
import { DenvError } from '../errors';
import { execIdOf } from '../ids';
import type { ServerContext } from './context';
import { asText, runExec } from './execs';
import type { SandboxRow } from './rows';
import type { OperationContext } from './operations';
import type { Sandboxes } from './sandboxes';

export type FilesKind = 'file' | 'tree';

export interface WriteWork {
  sandboxId: string;
  path: string;
  kind: FilesKind;
  dataBase64: string;
}

/** For reading and for writing. */
export const MAX_FILES_BYTES = 64 * 1024 * 1024;
const TIMEOUT_S = 300;

/**
 * Files of a running sandbox, read and written inside it, as its user: a link in the tree leads where it leads in the sandbox,
 * never to the host.
 */
export class Files {
  constructor(
    private readonly context: ServerContext,
    private readonly sandboxes: Sandboxes,
  ) {
    context.operations.register('write-files', (operation) => this.write(operation));
  }

  /** @throws DenvError invalid_request when the path cannot be read as the sandbox's user */
  async read(sandboxId: string, path: string, kind: FilesKind): Promise<Buffer> {
    const row = this.sandboxes.running(sandboxId);
    const execId = execIdOf(randomUUID());
    await this.context.driver.startExec(sandboxId, execId, {
      argv: kind === 'file' ? ['cat', '--', path] : ['tar', '-cf', '-', '-C', path, '.'],
      ...asSandboxUser(row),
      stdin: null,
    });
    const handle = await this.context.driver.openExec(sandboxId, execId);
    if (!handle) throw new DenvError('internal', `exec ${execId} in ${sandboxId} left no trace`);
    const { log, outputGuard } = this.context;
    const unguard = outputGuard.watch(handle, sandboxId);
    const kill = () =>
      handle.kill().catch((error: unknown) => {
        log.warn({ err: error, sandbox: sandboxId }, 'a read of files could not be killed');
      });
    const timer = setTimeout(() => void kill(), TIMEOUT_S * 1000);
    try {
      const end = await handle.ended();
      const output = await handle.output(MAX_FILES_BYTES);
      if (output.truncated) {
        throw new DenvError(
          'invalid_request',
          `path: ${path} is larger than ${MAX_FILES_BYTES} bytes`,
        );
      }
      if (end.kind !== 'exited' || end.exitCode !== 0) throw unreadable(path, output.stderr);
      return output.stdout;
    } finally {
      clearTimeout(timer);
      unguard();
      await handle.remove();
    }
  }

  private async write(operation: OperationContext): Promise<Record<string, never>> {
    const work = operation.request as WriteWork; // journalled by routes/files.ts
    const row = this.sandboxes.get(work.sandboxId);
    const outcome = await runExec(this.context, this.sandboxes, operation, row.id, {
      argv:
        work.kind === 'file'
          ? ['sh', '-c', 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1"', 'sh', work.path]
          : ['sh', '-c', 'mkdir -p -- "$1" && exec tar -xf - -C "$1"', 'sh', work.path],
      ...asSandboxUser(row),
      stdin: Buffer.from(work.dataBase64, 'base64'),
      timeoutS: TIMEOUT_S,
      maxOutputBytes: 64 * 1024,
    });
    if (outcome.exitCode !== 0) throw unreadable(work.path, outcome.stderr);
    return {};
  }
}

function asSandboxUser(row: SandboxRow) {
  return { uid: row.spec.uid, cwd: '/', env: row.spec.env };
}

function unreadable(path: string, stderr: Buffer): DenvError {
  return new DenvError('invalid_request', `path: ${path}: ${asText(stderr).trim().slice(-500)}`);
}
