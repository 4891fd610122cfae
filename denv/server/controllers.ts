import type { ControllerConnection } from '../controllers/controller';
import type { ExecHandle } from '../drivers/driver';
import { DenvError } from '../errors';
import { execIdOf } from '../ids';
import { isHud, openConnection, resumeConnection } from './connections';
import type { ServerContext } from './context';
import type { SandboxRow } from './rows';
import type { Sandboxes } from './sandboxes';
import { targetOf } from './targets';

const TAIL_BYTES = 500;
/** How long what a controller wrote before its end may take to be read from its log. */
const DRAIN_MS = 300;
/** How long a delete waits to be able to say good-bye. */
const LET_GO_MS = 3000;

/** The connections to all controllers: opened at create, held here, found again by a restarted server. */
export class Controllers {
  private readonly connections = new Map<string, Promise<ControllerConnection>>();
  private readonly handles = new Map<string, ExecHandle>();

  constructor(
    private readonly context: ServerContext,
    private readonly sandboxes: Sandboxes,
  ) {}

  /**
   * Starts a sandbox's controller and waits until it answers.
   * @throws DenvError controller_failed, with the last of its output
   */
  async start(row: SandboxRow, signal: AbortSignal): Promise<void> {
    const controller = row.spec.controller;
    if (controller.kind === 'shell') {
      row.controller.ready = true;
      return;
    }
    const command = targetOf(row.spec.image) === 'linux' ? controller.command : null;
    const handle = command ? await this.startProcess(row, command) : null;
    const ended = new AbortController();
    void handle?.ended().then(() => ended.abort(new ControllerEnded()));
    const either = AbortSignal.any([signal, ended.signal]);
    try {
      const opening = this.open(row, handle, either);
      const connection = await opening;
      this.connections.set(row.id, opening);
      this.closeAtEnd(handle, connection);
      row.controller = { ...row.controller, ready: true, ...connection.state() };
      if (isHud(connection)) row.controller.hud = connection.environment;
    } catch (error) {
      throw await this.explain(row, error, { handle, cancelled: signal, ended: ended.signal });
    }
  }

  /** Notes the sandbox as stopped when its controller ends by no act of ours. */
  watch(row: SandboxRow): void {
    const handle = this.handles.get(row.id);
    handle
      ?.ended()
      .then(() => this.noteEnd(row))
      .catch((error: unknown) => {
        // The sweep notices what this could not, such as a sandbox that was deleted meanwhile.
        this.context.log.warn({ err: error, sandbox: row.id }, "a controller's end was not noted");
      });
  }

  /** Notes the end of a sandbox's controller, once. */
  async noteEnd(row: SandboxRow): Promise<void> {
    const handle = this.handles.get(row.id);
    if (!handle || row.state !== 'running') return;
    const end = await handle.ended();
    const tail = await this.tailOf(handle);
    const state = await this.context.driver.state(row.id);
    if (state.state !== 'running') return this.sandboxes.checkAlive(row);
    const how = end.kind === 'exited' ? `exit code ${end.exitCode}` : end.kind;
    this.sandboxes.markStopped(row, {
      by: end.kind === 'lost' ? 'outside' : 'inside',
      what: state.oomKills > 0 ? 'oom_kill' : 'controller_ended',
      detail: tail === '' ? how : `${how}; ${tail}`,
    });
    // What is left of it is stopped as well: its files are what is judged.
    await this.context.driver.stop(row.id);
  }

  /** The connection of a running sandbox, opened anew when this process has none. */
  async connection(row: SandboxRow): Promise<ControllerConnection> {
    let opening = this.connections.get(row.id);
    if (!opening) {
      opening = this.resume(row);
      this.connections.set(row.id, opening);
      opening.catch(() => this.connections.delete(row.id));
    }
    return opening;
  }

  /** Takes hold of a controller that an earlier server process started. */
  async adopt(row: SandboxRow): Promise<void> {
    // A HUD session is taken up at once: its heartbeat goes on.
    if (row.spec.controller.kind === 'hud') {
      void this.connection(row).catch((error: unknown) => {
        // The next call asks again.
        this.context.log.warn({ err: error, sandbox: row.id }, 'its HUD session was not taken up');
      });
    }
    if (row.controller.execId === null) return;
    const handle = await this.context.driver.openExec(row.id, row.controller.execId);
    if (!handle) return;
    this.hold(row.id, handle);
    this.watch(row);
  }

  /** Waits a moment for the end of a controller whose connection broke: true when it has ended. */
  async hasEnded(row: SandboxRow): Promise<boolean> {
    const handle = this.handles.get(row.id);
    if (!handle) return row.state === 'stopped';
    const moment = new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 1000));
    return Promise.race([handle.ended().then(() => true), moment]);
  }

  /** Forgets a broken connection; the next call opens another one to the same session. */
  drop(sandboxId: string): void {
    this.connections.delete(sandboxId);
  }

  /** Journals a session id that has changed since it was last kept. */
  async keepSession(row: SandboxRow): Promise<void> {
    const state = (await this.connections.get(row.id))?.state();
    if (!state || state.sessionId === row.controller.sessionId) return;
    row.controller = { ...row.controller, ...state };
    this.sandboxes.put(row);
  }

  /**
   * Ends what a sandbox has open with something that goes on without us: its task is cancelled there, and its session ended,
   * also one that an earlier server process opened.
   */
  async letGo(row: SandboxRow): Promise<void> {
    if (row.spec.controller.kind === 'hud' && targetOf(row.spec.image) === 'tcp') {
      const late = new Promise((done) => setTimeout(done, LET_GO_MS).unref());
      const opened = this.connection(row).catch((error: unknown) => {
        this.context.log.warn({ err: error, sandbox: row.id }, 'its session could not be ended');
      });
      await Promise.race([opened, late]);
    }
    this.close(row.id);
  }

  close(sandboxId: string): void {
    this.context.outputGuard.forget(sandboxId);
    const opening = this.connections.get(sandboxId);
    this.connections.delete(sandboxId);
    void opening?.then(
      (connection) => connection.close(),
      () => undefined, // One that never opened; whoever asked for it was told why.
    );
    this.handles.get(sandboxId)?.release();
    this.handles.delete(sandboxId);
  }

  /** Lets go of everything, for the next server process to go on with. */
  releaseAll(): void {
    for (const opening of this.connections.values()) {
      void opening.then(
        (connection) => (isHud(connection) ? connection.release() : connection.close()),
        () => undefined, // One that never opened.
      );
    }
    this.connections.clear();
    for (const id of this.handles.keys()) this.close(id);
  }

  private async startProcess(row: SandboxRow, argv: string[]): Promise<ExecHandle> {
    const { controller, env, workdir } = row.spec;
    const execId = execIdOf(`${row.key}/controller`);
    await this.context.driver.startExec(row.id, execId, {
      argv,
      uid: controller.uid,
      cwd: workdir,
      env,
      stdin: controller.kind === 'mcp-stdio' ? 'pipe' : null,
    });
    const handle = await this.context.driver.openExec(row.id, execId);
    if (!handle) throw new DenvError('internal', `the controller of ${row.id} left no trace`);
    row.controller = { ...row.controller, execId };
    this.hold(row.id, handle);
    return handle;
  }

  private hold(sandboxId: string, handle: ExecHandle): void {
    this.handles.set(sandboxId, handle);
    this.context.outputGuard.watch(handle, sandboxId);
  }

  private open(
    row: SandboxRow,
    handle: ExecHandle | null,
    signal: AbortSignal,
  ): Promise<ControllerConnection> {
    return openConnection({ row, handle, driver: this.context.driver, signal });
  }

  private async resume(row: SandboxRow): Promise<ControllerConnection> {
    const handle = this.handles.get(row.id) ?? null;
    const { driver } = this.context;
    const connection = await resumeConnection({ row, handle, driver });
    if (row.spec.controller.kind === 'mcp-stdio') this.closeAtEnd(handle, connection);
    return connection;
  }

  /** Calls that are out when a controller ends get no answer any more. */
  private closeAtEnd(handle: ExecHandle | null, connection: ControllerConnection): void {
    void handle?.ended().then(() => setTimeout(() => connection.close(), DRAIN_MS));
  }

  private async explain(
    row: SandboxRow,
    error: unknown,
    {
      handle,
      cancelled,
      ended,
    }: { handle: ExecHandle | null; cancelled: AbortSignal; ended: AbortSignal },
  ): Promise<unknown> {
    if (cancelled.aborted) return new DenvError('sandbox_gone', 'deleted while it was created');
    const tail = handle ? await this.tailOf(handle) : '';
    const said = tail === '' ? '' : `; its last output: ${tail}`;
    if (ended.aborted) {
      const state = await this.context.driver.state(row.id);
      const oom = state.state !== 'absent' && state.oomKills > 0;
      const why = oom ? `, out of its ${row.spec.caps.memoryMb} MB (caps.memoryMb)` : '';
      const message = `the controller ended before it was ready${why}${said}`;
      return new DenvError('controller_failed', message);
    }
    const message = error instanceof Error ? error.message : String(error);
    return new DenvError('controller_failed', `${message}${said}`, { cause: error });
  }

  private async tailOf(handle: ExecHandle): Promise<string> {
    const { stdout, stderr } = await handle.output(1024 * 1024);
    return Buffer.concat([stdout.subarray(-TAIL_BYTES), stderr.subarray(-TAIL_BYTES)])
      .toString('utf8')
      .trim();
  }
}

class ControllerEnded extends Error {
  override readonly message = 'the controller ended';
}
