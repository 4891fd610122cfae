import type {
  CallReply,
  CallRequest,
  CreateSandboxRequest,
  ExecReply,
  ExecRequest,
  ForkRequest,
  HudErrorKind,
  Sandbox,
  SnapshotRequest,
  StopEvidence,
  VerifyReply,
  VerifyRequest,
  Version,
} from '../../contracts/denv';
import type { DenvClient } from '../../denv/client';
import type { KeyedOptions } from '../../denv/client/operations';
import { DenvError } from '../../denv/errors';
import { forkChildKey, sandboxIdOf, versionIdOf } from '../../denv/ids';

/** One effect that a test may answer itself. `log` is what happened in that sandbox so far: the fake's whole world. */
export interface FakeContext {
  key: string;
  sandboxId: string;
  log: string[];
  /** Resolves when the operation is cancelled, or `release(key)` is called. */
  hang: () => Promise<'cancelled' | 'released'>;
}

export interface FakeHandlers {
  create: (request: CreateSandboxRequest, context: FakeContext) => Promise<void> | void;
  exec: (request: ExecRequest, context: FakeContext) => Promise<ExecReply> | ExecReply;
  /** Undefined: what the fake does by itself. */
  call: (
    request: CallRequest,
    context: FakeContext,
  ) => Promise<CallReply | undefined> | CallReply | undefined;
  verify: (
    request: VerifyRequest,
    context: FakeContext & { version: string },
  ) => Promise<VerifyReply> | VerifyReply;
  fork: (request: ForkRequest, context: FakeContext) => Promise<void> | void;
  renew: (sandboxId: string) => void;
  delete: (sandboxId: string) => Promise<void> | void;
}

const now = (): string => new Date().toISOString();

export const fakeTools = [
  {
    name: 'write',
    description: 'Writes a line',
    inputSchema: { type: 'object', properties: { line: { type: 'string' } } },
  },
  {
    name: 'look',
    description: 'Reads the lines',
    inputSchema: { type: 'object', properties: {} },
    annotations: { readOnlyHint: true },
  },
];

export const textReply = (text: string, more: Partial<CallReply> = {}): CallReply => ({
  result: { content: [{ type: 'text', text }] },
  timedOut: false,
  durationS: 0.5,
  ...more,
});

/** A controller's own error of `hud/start` or `hud/grade`. */
export const hudError = (kind: HudErrorKind, message: string): CallReply => ({
  error: { code: -32_000, message, data: { kind } },
  timedOut: false,
  durationS: 0.1,
});

export const hudResult = (result: Record<string, unknown>): CallReply => ({
  result,
  timedOut: false,
  durationS: 0.1,
});

/** What `hud/grade` answers: the actor's frame, and that of the task's own verifier. */
export const hudGrade = (
  grade: Record<string, unknown>,
  verifier: Record<string, unknown> | null = null,
): CallReply => hudResult({ grade, verifier });

export const evidence = (
  version: string,
  more: Partial<VerifyReply['evidence']> = {},
): VerifyReply['evidence'] => ({
  principal: 'verifier',
  uid: 2000,
  egress: 'deny',
  version,
  reproducible: true,
  image: { name: 'host', digest: 'sha256:0' },
  verifierDigest: 'sha256:1',
  collected: [],
  missing: [],
  refused: null,
  exitCode: 0,
  timedOut: false,
  noVerdict: null,
  outputTail: '',
  timings: {},
  ...more,
});

export const reward = (version: string, value: number): VerifyReply => ({
  version,
  verdict: 'reward',
  reward: value,
  rewards: {},
  evidence: evidence(version),
});

export const noVerdict = (version: string): VerifyReply => ({
  version,
  verdict: 'none',
  reward: null,
  rewards: {},
  evidence: evidence(version, { exitCode: 139, noVerdict: 'the verifier crashed' }),
});

/**
 * A denv server in memory. A key has one effect, as on the real one; refusals before an effect are not kept. Sandboxes hold a log
 * of lines; versions freeze it, forks start from it. `handlers` replace what an operation does. A sandbox has one `hud/start` and
 * one `hud/grade` in its life, whatever a handler answers.
 */
export class FakeDenv {
  readonly sandboxes = new Map<string, Sandbox>();
  readonly logs = new Map<string, string[]>();
  readonly versions = new Map<string, string[]>();
  /** Of each sandbox: what it was started from, or the version that was taken of it last. */
  readonly lastVersion = new Map<string, string>();
  /** Every effect that began, in order: `<kind> <key>`. */
  readonly effects: string[] = [];
  readonly cancelled: string[] = [];
  /** Keys of the one start and the one grade of each sandbox. */
  readonly hud = new Map<string, { start?: string; grade?: string }>();
  readonly deleted: string[] = [];
  /** Create requests by key, for their labels and bodies. */
  readonly created = new Map<string, CreateSandboxRequest>();
  handlers: Partial<FakeHandlers> = {};
  readonly #operations = new Map<string, Promise<unknown>>();
  readonly #waiting = new Map<string, (why: 'cancelled' | 'released') => void>();
  readonly #started: { end: string; resolve: () => void }[] = [];

  readonly client: DenvClient = {
    createSandbox: (request, options) =>
      this.#keyed('create', options, sandboxIdOf(options.key), async (context) => {
        const { key } = context;
        this.created.set(key, request);
        await this.handlers.create?.(request, context);
        const base = request.version ?? versionIdOf(`${request.image}`);
        return this.#start(key, base, request);
      }),
    listSandboxes: (filter = {}) =>
      Promise.resolve({
        sandboxes: [...this.sandboxes.values()].filter(
          ({ labels }) => filter.owner === undefined || labels.owner === filter.owner,
        ),
      }),
    getSandbox: (id) => Promise.resolve(this.#sandbox(id)),
    exec: (id, request, options) =>
      this.#keyed('exec', options, id, (context) => {
        this.#running(id);
        return this.handlers.exec?.(request, context) ?? this.#exec(request, context);
      }),
    call: (id, request, options) =>
      this.#keyed('call', options, id, async (context) => {
        this.#running(id);
        const frozen = this.#frozenFor(request, options.key, id);
        const reply = await this.#call(request, context, frozen?.version);
        return frozen ? { ...reply, ...frozen } : reply;
      }),
    readFile: () => Promise.reject(new Error('the fake has no files')),
    writeFile: () => Promise.reject(new Error('the fake has no files')),
    readTree: () => Promise.reject(new Error('the fake has no files')),
    writeTree: () => Promise.reject(new Error('the fake has no files')),
    snapshot: (id, _request: SnapshotRequest, options) =>
      this.#keyed('snapshot', options, id, () => this.#version(this.#freeze(options.key, id), id)),
    fork: (id, request, options) => this.#fork(this.#freeze(options.key, id), request, options),
    forkVersion: (version, request, options) => this.#fork(version, request, options),
    verify: (id, request, options) =>
      this.#keyed('verify', options, id, (context) => {
        const version = this.#freeze(options.key, this.#sandbox(id).id);
        return this.handlers.verify?.(request, { ...context, version }) ?? reward(version, 1);
      }),
    verifyVersion: (version, request, options) =>
      this.#keyed('verify', options, version, (context) => {
        const log = this.#frozen(version);
        return this.handlers.verify?.(request, { ...context, log, version }) ?? reward(version, 1);
      }),
    getVersion: (version) => Promise.resolve(this.#version(version, null)),
    listVersions: () =>
      Promise.resolve({ versions: [...this.versions.keys()].map((id) => this.#version(id, null)) }),
    deleteVersion: async (version) => {
      this.#frozen(version);
      this.versions.delete(version);
    },
    retainVersion: (version) => Promise.resolve(this.#version(version, null)),
    diffVersions: () => Promise.reject(new Error('the fake has no files')),
    readVersionFile: () => Promise.reject(new Error('the fake has no files')),
    renew: async (id) => {
      this.#note(`renew ${id}`);
      this.handlers.renew?.(id);
      return this.#sandbox(id);
    },
    deleteSandbox: async (id) => {
      await this.handlers.delete?.(id);
      this.deleted.push(id);
      this.sandboxes.delete(id);
    },
    record: (sandbox) => Promise.resolve({ sandbox, entries: [] }),
    operation: (key) => Promise.resolve({ key, kind: 'exec', state: 'running' }),
    cancelOperation: async (key) => {
      this.cancelled.push(key);
      this.#waiting.get(key)?.('cancelled');
    },
    uploadTree: () => Promise.reject(new Error('the fake wants no trees')),
    targets: () => Promise.resolve({ targets: [] }),
    health: () =>
      Promise.resolve({
        ok: true,
        version: '0',
        pid: 1,
        sandboxes: this.sandboxes.size,
        operationsRunning: this.#waiting.size,
      }),
  };

  /** Resolves once an effect has begun, or a lease was renewed, whose key or id ends so. */
  began(end: string): Promise<void> {
    if (this.effects.some((effect) => effect.endsWith(end))) return Promise.resolve();
    return new Promise((resolve) => this.#started.push({ end, resolve }));
  }

  release(keyEnd: string): void {
    for (const [key, resolve] of this.#waiting) if (key.endsWith(keyEnd)) resolve('released');
  }

  /** From now on the sandbox has no processes. */
  stop(sandboxId: string, by: StopEvidence['by']): void {
    const sandbox = this.#sandbox(sandboxId);
    const what = by === 'inside' ? 'controller_ended' : 'host_restart';
    this.sandboxes.set(sandboxId, {
      ...sandbox,
      state: 'stopped',
      stopped: { by, what, at: now() },
    });
  }

  effectsOf(kind: string): string[] {
    return this.effects
      .filter((effect) => effect.startsWith(`${kind} `))
      .map((e) => e.slice(kind.length + 1));
  }

  #note(effect: string): void {
    this.effects.push(effect);
    for (const waiter of this.#started) if (effect.endsWith(waiter.end)) waiter.resolve();
  }

  async #keyed<T>(
    kind: string,
    { key, signal }: KeyedOptions,
    sandboxId: string,
    effect: (context: FakeContext) => Promise<T> | T,
  ): Promise<T> {
    const running = this.#operations.get(key);
    if (running) return letGo(running as Promise<T>, signal); // of the same key, so of the same kind
    this.#note(`${kind} ${key}`);
    const hang = (): Promise<'cancelled' | 'released'> =>
      new Promise((resolve) => {
        this.#waiting.set(key, (why) => {
          this.#waiting.delete(key);
          resolve(why);
        });
      });
    const log = this.logs.get(sandboxId) ?? [];
    const outcome = (async () => effect({ key, sandboxId, log, hang }))();
    this.#operations.set(key, outcome);
    try {
      return await letGo(outcome, signal);
    } catch (error) {
      if (error instanceof DenvError && error.retryable) this.#operations.delete(key);
      throw error;
    }
  }

  #fork(version: string, request: ForkRequest, options: KeyedOptions) {
    const childKey = forkChildKey(options.key, 0);
    return this.#keyed('fork', options, sandboxIdOf(childKey), async (context) => {
      await this.handlers.fork?.(request, context);
      const sandbox = this.#start(childKey, version, request);
      return { version, pausedMs: 1, children: [{ sandbox }] };
    });
  }

  #start(key: string, version: string, request: { labels?: Record<string, string> }): Sandbox {
    const id = sandboxIdOf(key);
    if (this.deleted.includes(id)) throw new DenvError('sandbox_gone', `${id} was deleted`);
    if (!this.versions.has(version)) this.versions.set(version, []);
    this.logs.set(id, [...this.#frozen(version)]);
    this.lastVersion.set(id, version);
    const sandbox: Sandbox = {
      id,
      state: 'running',
      ports: {},
      version,
      reproducible: true,
      forkedFrom: null,
      labels: request.labels ?? {},
      createdAt: now(),
      leaseUntil: now(),
      controller: { kind: 'shell', ready: true },
      target: 'linux',
      stopped: null,
    };
    this.sandboxes.set(id, sandbox);
    return sandbox;
  }

  async #call(
    request: CallRequest,
    context: FakeContext,
    version: string | undefined,
  ): Promise<CallReply> {
    this.#refuseSecond(request, context);
    try {
      const answer = await this.handlers.call?.(request, context);
      if (answer) return answer;
    } catch (error) {
      // The real server names the version that it took before a call whose outcome it lost.
      if (!(error instanceof DenvError) || error.code !== 'outcome_unknown' || !version)
        throw error;
      throw new DenvError('outcome_unknown', error.message, { details: { version } });
    }
    if (request.method === 'tools/list') {
      return { result: { tools: fakeTools }, timedOut: false, durationS: 0.01 };
    }
    if (request.method === 'hud/start') return hudResult({ prompt: 'Mend it, says HUD.' });
    if (request.method === 'hud/grade') return hudGrade({ score: 1 });
    const params = request.params as { name: string; arguments: { line?: string } };
    if (params.name === 'write') context.log.push(params.arguments.line ?? '');
    return textReply(context.log.join('\n'));
  }

  #refuseSecond({ method }: CallRequest, { key, sandboxId }: FakeContext): void {
    if (method !== 'hud/start' && method !== 'hud/grade') return;
    const once = method === 'hud/start' ? 'start' : 'grade';
    const had = this.hud.get(sandboxId) ?? {};
    if (had[once] !== undefined || (once === 'grade' && had.start === undefined)) {
      throw new DenvError(
        'invalid_request',
        `${method} in ${sandboxId}: ${had[once] ?? 'no start'}`,
      );
    }
    this.hud.set(sandboxId, { ...had, [once]: key });
  }

  #exec(request: ExecRequest, context: FakeContext): ExecReply {
    context.log.push(request.argv.join(' '));
    const stdout = context.log.join('\n');
    return { exitCode: 0, stdout, stderr: '', truncated: false, timedOut: false, durationS: 0.1 };
  }

  /** The version before a call: with `changed`, the sandbox's last one where nothing has changed since. */
  #frozenFor({ snapshot }: CallRequest, key: string, id: string) {
    if (!snapshot) return undefined;
    const last = this.lastVersion.get(id);
    const same =
      last && JSON.stringify(this.versions.get(last)) === JSON.stringify(this.logs.get(id) ?? []);
    if (snapshot === 'changed' && same) return { version: last, unchanged: true };
    return { version: this.#freeze(key, id) };
  }

  #freeze(key: string, sandboxId: string): string {
    const version = versionIdOf(key);
    this.versions.set(version, [...(this.logs.get(sandboxId) ?? [])]);
    this.lastVersion.set(sandboxId, version);
    return version;
  }

  #frozen(version: string): string[] {
    const log = this.versions.get(version);
    if (!log) throw new DenvError('version_not_found', `no version ${version}`);
    return log;
  }

  #version(id: string, sandbox: string | null): Version {
    this.#frozen(id);
    const at = now();
    return {
      id,
      sandbox,
      createdAt: at,
      retainUntil: at,
      reproducible: true,
      labels: {},
      pausedMs: 1,
      flushMs: 1,
      bytes: null,
      usedBy: [],
    };
  }

  #sandbox(id: string): Sandbox {
    const sandbox = this.sandboxes.get(id);
    if (sandbox) return sandbox;
    throw new DenvError('sandbox_not_found', `no sandbox ${id}`);
  }

  #running(id: string): void {
    const { state, stopped } = this.#sandbox(id);
    if (state === 'running') return;
    throw new DenvError('sandbox_stopped', `sandbox ${id} is stopped`, { details: { stopped } });
  }
}

/** A caller that lets go stops waiting; the operation goes on. */
function letGo<T>(outcome: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return outcome;
  const aborted = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
  return Promise.race([outcome, aborted]);
}
