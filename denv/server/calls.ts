import type {
  CallReply,
  ExecReply,
  ParsedCallRequest,
  ParsedExecRequest,
} from '../../contracts/denv';
import { type CallAnswer, type ControllerCall, ControllerLost } from '../controllers/controller';
import { shellCommand, shellResult, shellTools } from '../controllers/shell';
import { DenvError } from '../errors';
import { execIdOf } from '../ids';
import type { ServerContext } from './context';
import type { Controllers } from './controllers';
import { asText, runExec } from './execs';
import type { SandboxRow } from './rows';
import { hasEffect, type Once, onceOf, refuseForeign, refuseSecond } from './once';
import { type OperationContext, RolledBack } from './operations';
import type { Sandboxes } from './sandboxes';
import { stoppedError, uidOfUser } from './views';

export interface ExecWork {
  sandboxId: string;
  request: ParsedExecRequest;
}

export interface CallWork {
  sandboxId: string;
  request: ParsedCallRequest;
}

/** What a shell tool may print in all; what the agent is shown of it is cut by whoever asks. */
const SHELL_OUTPUT_BYTES = 32 * 1024 * 1024;

interface Snapshots {
  version?: string;
  snapshotS?: number;
  flushS?: number;
  unchanged?: boolean;
}

/** Commands and controller calls: keyed work on a running sandbox, with a snapshot before or after it in the same key. */
class Calls {
  constructor(
    private readonly context: ServerContext,
    private readonly sandboxes: Sandboxes,
    private readonly controllers: Controllers,
  ) {}

  async exec(operation: OperationContext): Promise<ExecReply> {
    const { sandboxId, request } = operation.request as ExecWork; // journalled by routes/execs.ts
    const row = this.sandboxes.get(sandboxId);
    const before = await this.snapshot(operation, row, request.snapshot, 'before');
    const outcome = await tellingVersion(operation, () =>
      runExec(this.context, this.sandboxes, operation, sandboxId, {
        argv: request.argv,
        uid: request.user === undefined ? row.spec.uid : uidOfUser(request.user),
        cwd: request.cwd ?? row.spec.workdir,
        env: { ...row.spec.env, ...request.env },
        stdin: request.stdin === undefined ? null : Buffer.from(request.stdin),
        timeoutS: request.timeoutS,
        maxOutputBytes: request.maxOutputBytes,
      }),
    );
    const after = await this.snapshot(operation, row, request.snapshot, 'after');
    return {
      ...outcome,
      stdout: asText(outcome.stdout),
      stderr: asText(outcome.stderr),
      ...before,
      ...after,
    };
  }

  async call(operation: OperationContext): Promise<CallReply> {
    const { sandboxId, request } = operation.request as CallWork; // journalled by routes/execs.ts
    const row = this.sandboxes.get(sandboxId);
    refuseForeign(row, request.method);
    const before = await this.snapshot(operation, row, request.snapshot, 'before');
    const startedAt = Date.now();
    const answer = await tellingVersion(operation, () =>
      row.spec.controller.kind === 'shell'
        ? this.callShell(operation, row, request)
        : this.callController(operation, row, request),
    );
    const durationS = (Date.now() - startedAt) / 1000;
    const after = await this.snapshot(operation, row, request.snapshot, 'after');
    return { ...toReply(answer), durationS, ...before, ...after };
  }

  private async callShell(
    operation: OperationContext,
    row: SandboxRow,
    request: ParsedCallRequest,
  ): Promise<CallAnswer> {
    this.sandboxes.running(row.id);
    if (request.method === 'tools/list') return { kind: 'result', result: { tools: shellTools } };
    const command = shellCommand(request.params);
    if ('invalid' in command) {
      return { kind: 'error', error: { code: -32602, message: command.invalid } };
    }
    const outcome = await runExec(this.context, this.sandboxes, operation, row.id, {
      argv: command.argv,
      uid: row.spec.controller.uid,
      cwd: row.spec.workdir,
      env: row.spec.env,
      stdin: command.stdin === null ? null : Buffer.from(command.stdin),
      timeoutS: request.timeoutS,
      maxOutputBytes: SHELL_OUTPUT_BYTES,
    });
    if (outcome.timedOut) return { kind: 'timed_out' };
    const end = { ...outcome, stdout: asText(outcome.stdout), stderr: asText(outcome.stderr) };
    return { kind: 'result', result: shellResult(String(request.params['name']), end) };
  }

  private async callController(
    operation: OperationContext,
    row: SandboxRow,
    request: ParsedCallRequest,
  ): Promise<CallAnswer> {
    const { phase } = operation;
    const once = onceOf(request.method);
    if (once) refuseSecond(row, once, operation.key);
    const effect = hasEffect(request.method);
    const wasOut = operation.resumed && phase['sending'] === true;
    const call: ControllerCall = {
      callId: execIdOf(operation.key),
      method: request.method,
      params: request.params,
      timeoutS: request.timeoutS,
      resetTimeoutOnProgress: request.resetTimeoutOnProgress,
      signal: operation.signal,
      sending: () => {
        // First whose it is: no other key may ever send it.
        if (once) this.claim(row, once, operation.key);
        if (effect) operation.setPhase({ sending: true });
      },
      sent: () => {
        if (effect) operation.setPhaseRelaxed({ sent: true });
      },
    };
    // Only what is said over pipes is kept outside the server, answers too.
    const keepsAnswers = row.spec.controller.kind === 'mcp-stdio';
    if (wasOut && !(keepsAnswers && phase['sent'] === true)) {
      throw this.unknown(operation, row, 'the server died while the call was out');
    }
    try {
      const connection = await this.controllers.connection(row);
      if (!wasOut) this.sandboxes.running(row.id);
      const answer = await (wasOut && connection.awaitAnswer
        ? connection.awaitAnswer(call)
        : connection.call(call));
      await this.controllers.keepSession(row);
      return answer;
    } catch (error) {
      if (!(error instanceof ControllerLost)) throw error;
      throw await this.explainLoss(operation, row, error);
    }
  }

  /** Notes that this key's is the one start, or the one grade, of the sandbox's life. */
  private claim(row: SandboxRow, once: Once, key: string): void {
    if (row.controller[once] === key) return;
    row.controller = { ...row.controller, [once]: key };
    this.sandboxes.put(row);
  }

  /** A connection broke under a call: the controller has ended, or nobody knows what became of the call. */
  private async explainLoss(
    operation: OperationContext,
    row: SandboxRow,
    lost: ControllerLost,
  ): Promise<Error> {
    this.controllers.drop(row.id);
    if (await this.controllers.hasEnded(row)) await this.controllers.noteEnd(row);
    await this.sandboxes.checkAlive(row);
    if (row.state !== 'running') return stoppedError(row);
    if (lost.sent) return this.unknown(operation, row, lost.message);
    return new RolledBack(
      new DenvError(
        'unavailable',
        `the controller of ${row.id} cannot be reached: ${lost.message}`,
        {
          cause: lost,
        },
      ),
    );
  }

  private unknown(operation: OperationContext, row: SandboxRow, why: string): DenvError {
    const version = operation.phase['version'];
    return new DenvError('outcome_unknown', `call in sandbox ${row.id}: ${why}`, {
      details: version === undefined ? {} : { version },
    });
  }

  private async snapshot(
    operation: OperationContext,
    row: SandboxRow,
    asked: ParsedExecRequest['snapshot'],
    when: 'before' | 'after',
  ): Promise<Snapshots> {
    if (asked === undefined || (asked === 'after') !== (when === 'after')) return {};
    const known = operation.phase['snapshot'];
    // An earlier server process came further than this: what the call has done since is no part of it.
    if (known !== undefined) return known as Snapshots; // written below
    const startedAt = Date.now();
    let found;
    try {
      // A sandbox that has stopped can be snapshotted, but the call that this is for cannot be made.
      if (when === 'before' && !operation.resumed) this.sandboxes.running(row.id);
      found = await this.take(row, operation.key, asked === 'changed');
    } catch (error) {
      const retryable = !(error instanceof DenvError) || error.retryable;
      throw when === 'before' && retryable ? new RolledBack(error) : error;
    }
    const snapshot = {
      version: found.version.id,
      snapshotS: (Date.now() - startedAt) / 1000,
      flushS: found.flushMs / 1000,
      ...(asked === 'changed' ? { unchanged: found.unchanged } : {}),
    };
    operation.setPhaseRelaxed({ version: found.version.id, snapshot });
    return snapshot;
  }

  private async take(row: SandboxRow, key: string, onlyIfChanged: boolean) {
    if (onlyIfChanged) return this.sandboxes.takeIfChanged(row, key);
    const version = await this.sandboxes.takeVersion(row, key, { stop: false });
    return { version, unchanged: false, flushMs: version.flushMs ?? 0 };
  }
}

/** A sandbox that stops under a call can be gone on from before it: the error names the version taken then. */
async function tellingVersion<T>(operation: OperationContext, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const version = operation.phase['version'];
    if (!(error instanceof DenvError) || error.code !== 'sandbox_stopped') throw error;
    if (version === undefined) throw error;
    throw new DenvError(error.code, error.message, {
      cause: error,
      details: { ...error.details, version },
    });
  }
}

/** Registers the work of `exec` and `call`. */
export function registerCalls(
  context: ServerContext,
  sandboxes: Sandboxes,
  controllers: Controllers,
): void {
  const calls = new Calls(context, sandboxes, controllers);
  context.operations.register('exec', (operation) => calls.exec(operation));
  context.operations.register('call', (operation) => calls.call(operation));
}

function toReply(answer: CallAnswer): Pick<CallReply, 'result' | 'error' | 'timedOut'> {
  switch (answer.kind) {
    case 'result':
      return { result: answer.result, timedOut: false };
    case 'error':
      return { error: answer.error, timedOut: false };
    case 'timed_out':
      return { timedOut: true };
  }
}
