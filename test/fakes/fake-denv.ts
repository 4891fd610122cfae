import { createHash } from 'node:crypto';
import type { z } from 'zod';
import {
  CallRequest as CallSchema,
  CreateSandboxRequest as CreateSchema,
  ExecRequest as ExecSchema,
  ForkRequest as ForkSchema,
  VerifyRequest as VerifySchema,
} from '../../contracts/denv';
import type {
  CallReply,
  CallRequest,
  CreateSandboxRequest,
  ExecReply,
  ExecRequest,
  ForkReply,
  ForkRequest,
  HudErrorKind,
  RecordEntry,
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
import { FakeOperations, type Release } from './fake-operations';
import { copyTree, type FakeTree, FakeVersions } from './fake-versions';

/** One effect that a test may answer itself. `log` is what happened in that sandbox so far. */
export interface FakeContext {
  key: string;
  sandboxId: string;
  log: string[];
  /** Resolves when the operation is cancelled, or `release(key)` is called. */
  hang: () => Promise<Release>;
}

export interface FakeHandlers {
  create: (request: CreateSandboxRequest, context: FakeContext) => Promise<void> | void;
  /** Undefined, here and in `call`: what the fake does by itself. */
  exec: (
    request: ExecRequest,
    context: FakeContext,
  ) => Promise<ExecReply | undefined> | ExecReply | undefined;
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

const LEASE_S = 600;

/**
 * A denv server in memory, held to the real one by test/denv/denv-suite.ts. Sandboxes hold a log of lines, and files; versions
 * freeze both, forks start from them. `handlers` replace what an operation does.
 */
export class FakeDenv {
  readonly sandboxes = new Map<string, Sandbox>();
  readonly logs = new Map<string, string[]>();
  readonly cancelled: string[] = [];
  /** Keys of the one start and the one grade of each sandbox. */
  readonly hud = new Map<string, { start?: string; grade?: string }>();
  readonly deleted: string[] = [];
  /** Create requests by key, for their labels and bodies. */
  readonly created = new Map<string, CreateSandboxRequest>();
  handlers: Partial<FakeHandlers> = {};
  readonly #operations = new FakeOperations();
  readonly #versions = new FakeVersions((id) =>
    [...this.sandboxes.values()].filter((row) => row.version === id).map((row) => row.id),
  );
  readonly #files = new Map<string, Map<string, Buffer>>();
  /** What each sandbox was started from, or the version that was taken of it last. */
  readonly #lastVersion = new Map<string, string>();
  readonly #records = new Map<string, RecordEntry[]>();
  readonly #uploaded = new Set<string>();
  readonly #leaseS = new Map<string, number>();

  readonly client: DenvClient = {
    createSandbox: (request, options) => this.#create(request, options),
    listSandboxes: async ({ owner, rolloutId } = {}) => ({
      sandboxes: [...this.sandboxes.values()].filter(
        ({ labels }) =>
          (owner === undefined || labels['owner'] === owner) &&
          (rolloutId === undefined || labels['rolloutId'] === rolloutId),
      ),
    }),
    getSandbox: async (id) => this.#sandbox(id),
    exec: (id, request, options) => this.#exec(id, request, options),
    call: (id, request, options) => this.#call(id, request, options),
    readFile: async (id, path) => {
      const data = this.#filesOf(this.#running(id).id).get(path);
      if (data) return data;
      throw new DenvError('invalid_request', `path: ${path}: not there`);
    },
    writeFile: (id, path, data, options) => {
      const sha256 = createHash('sha256').update(data).digest('hex');
      const effect = { path, kind: 'file', sha256 };
      return this.#keyed(
        'write-files',
        options,
        id,
        { effect, refuse: () => this.#running(id) },
        () => {
          this.#filesOf(id).set(path, data);
        },
      );
    },
    readTree: () => Promise.reject(new Error('the fake has no archives')),
    writeTree: () => Promise.reject(new Error('the fake has no archives')),
    snapshot: (id, request, options) => this.#snapshot(id, request, options),
    fork: (id, request, options) =>
      this.#fork(id, request, options, {
        refuse: () => void this.#sandbox(id),
        version: () => this.#freeze(options.key, id),
      }),
    forkVersion: (version, request, options) =>
      this.#fork(version, request, options, {
        refuse: () => void this.#versions.tree(version),
        version: () => version,
      }),
    verify: (id, request, options) => this.#verify(id, request, options),
    verifyVersion: (version, request, options) => this.#verifyVersion(version, request, options),
    getVersion: async (version) => this.#versions.view(version),
    listVersions: async (filter = {}) => ({ versions: this.#versions.list(filter) }),
    deleteVersion: async (version) => this.#versions.remove(version),
    retainVersion: async (version, { retentionS }) => this.#versions.retain(version, retentionS),
    diffVersions: async (a, b) => this.#versions.diff(a, b),
    readVersionFile: async (version, path) => this.#versions.readFile(version, path),
    renew: async (id, { leaseS }) => {
      this.#operations.note(`renew ${id}`);
      this.handlers.renew?.(id);
      return this.#touch(id, leaseS);
    },
    deleteSandbox: async (id) => {
      await this.handlers.delete?.(id);
      this.#operations.cancelAll(id);
      this.deleted.push(id);
      if (this.sandboxes.delete(id)) this.#record(id, 'deleted');
    },
    record: async (sandbox) => {
      const entries = this.#records.get(sandbox);
      if (!entries) this.#sandbox(sandbox);
      return { sandbox, entries: entries ?? [] };
    },
    operation: (key, { waitS = 0 } = {}) => this.#operations.find(key, waitS),
    cancelOperation: async (key) => {
      this.cancelled.push(key);
      this.#operations.end('cancelled', (other) => other === key);
    },
    uploadTree: async (sha256, tar) => {
      const hash = createHash('sha256');
      for await (const piece of tar) hash.update(piece);
      if (hash.digest('hex') !== sha256) throw new DenvError('invalid_request', 'another digest');
      this.#uploaded.add(sha256);
    },
    targets: async () => ({ targets: [] }),
    health: async () => ({
      ok: true,
      version: '0',
      pid: 1,
      sandboxes: this.sandboxes.size,
      operationsRunning: this.#operations.running,
    }),
  };

  /** Every effect that began, in order: `<kind> <key>`. */
  get effects(): string[] {
    return this.#operations.effects;
  }

  /** The lines of each version. */
  get versions(): Map<string, string[]> {
    return this.#versions.logs;
  }

  /** Resolves once an effect has begun, or a lease was renewed, whose key or id ends so. */
  began(end: string): Promise<void> {
    return this.#operations.began(end);
  }

  release(keyEnd: string): void {
    this.#operations.end('released', (key) => key.endsWith(keyEnd));
  }

  /** From now on the sandbox has no processes. */
  stop(sandboxId: string, by: StopEvidence['by']): void {
    this.#markStopped(sandboxId, by, by === 'inside' ? 'controller_ended' : 'host_restart');
  }

  effectsOf(kind: string): string[] {
    return this.effects
      .filter((effect) => effect.startsWith(`${kind} `))
      .map((e) => e.slice(kind.length + 1));
  }

  #keyed<T>(
    kind: string,
    { key, signal }: KeyedOptions,
    sandboxId: string,
    { effect, refuse }: { effect: unknown; refuse: () => unknown },
    work: (context: FakeContext) => Promise<T> | T,
  ): Promise<T> {
    const operation = { kind, key, sandbox: sandboxId, effect, signal };
    return this.#operations.run(
      operation,
      () => void refuse(),
      (hang) => work({ key, sandboxId, log: this.logs.get(sandboxId) ?? [], hang }),
    );
  }

  async #create(request: CreateSandboxRequest, options: KeyedOptions): Promise<Sandbox> {
    const { key } = options;
    const id = sandboxIdOf(key);
    const {
      wait: _wait,
      leaseS: _lease,
      labels: _labels,
      ...effect
    } = parse(CreateSchema, request);
    const files = this.#holdTrees(request);
    const refuse = () => {
      const sources = [request.image, request.version, request.address];
      if (sources.filter((source) => source !== undefined).length !== 1) {
        throw new DenvError(
          'invalid_request',
          'exactly one of image, version and address is needed',
        );
      }
      this.#refuseGone(id);
      if (request.version !== undefined) this.#versions.tree(request.version);
    };
    return this.#keyed(
      'create',
      options,
      id,
      { effect: { ...effect, files }, refuse },
      async (context) => {
        this.created.set(key, request);
        await this.handlers.create?.(request, context);
        if (request.version !== undefined) return this.#start(key, request.version, request);
        const base = versionIdOf(`${request.image ?? request.address}`);
        this.#versions.keep(base, { log: [], files: new Map() }, { sandbox: null, labels: {} });
        return this.#start(key, base, request);
      },
    );
  }

  #holdTrees({ files = [] }: CreateSandboxRequest): { to: string; sha256: string }[] {
    const held = files.map((tree) => {
      if ('sha256' in tree) return { to: tree.to, sha256: tree.sha256 };
      const tar = Buffer.from(tree.tarBase64, 'base64');
      const sha256 = createHash('sha256').update(tar).digest('hex');
      this.#uploaded.add(sha256);
      return { to: tree.to, sha256 };
    });
    const missing = held
      .map(({ sha256 }) => sha256)
      .filter((sha256) => !this.#uploaded.has(sha256));
    if (missing.length === 0) return held;
    throw new DenvError('files_missing', 'trees are missing', { details: { sha256: missing } });
  }

  #start(
    key: string,
    version: string,
    { labels = {}, leaseS = LEASE_S }: { labels?: Record<string, string>; leaseS?: number },
  ): Sandbox {
    const id = sandboxIdOf(key);
    this.#refuseGone(id);
    const { log, files } = copyTree(this.#versions.tree(version));
    const { sandbox: of } = this.#versions.view(version);
    this.logs.set(id, log);
    this.#files.set(id, files);
    this.#lastVersion.set(id, version);
    this.#leaseS.set(id, leaseS);
    const at = Date.now();
    const sandbox: Sandbox = {
      id,
      state: 'running',
      ports: {},
      version,
      reproducible: true,
      forkedFrom: of === null ? null : { sandbox: of, version },
      labels,
      createdAt: new Date(at).toISOString(),
      leaseUntil: new Date(at + leaseS * 1000).toISOString(),
      controller: { kind: 'shell', ready: true },
      target: 'linux',
      stopped: null,
    };
    this.sandboxes.set(id, sandbox);
    this.#record(id, of === null ? 'created' : 'forked', { version });
    return sandbox;
  }

  #snapshot(id: string, request: SnapshotRequest, options: KeyedOptions): Promise<Version> {
    const { labels, retentionS } = request;
    const refuse = () => this.#sandbox(id);
    return this.#keyed('snapshot', options, id, { effect: { retentionS }, refuse }, () =>
      this.#versions.view(this.#freeze(options.key, id, { labels, retentionS })),
    );
  }

  async #fork(
    source: string,
    request: ForkRequest,
    options: KeyedOptions,
    { refuse, version }: { refuse: () => void; version: () => string },
  ): Promise<ForkReply> {
    const { wait: _wait, leaseS: _lease, labels: _labels, ...effect } = parse(ForkSchema, request);
    return this.#keyed('fork', options, source, { effect, refuse }, async (context) => {
      const children = Array.from({ length: effect.count }, (_, n) => forkChildKey(options.key, n));
      const sandboxId = sandboxIdOf(children[0] ?? '');
      await this.handlers.fork?.(request, { ...context, sandboxId });
      const from = version();
      return {
        version: from,
        pausedMs: 1,
        children: children.map((key) => this.#startChild(key, from, request)),
      };
    });
  }

  #startChild(key: string, from: string, request: ForkRequest): ForkReply['children'][number] {
    try {
      return { sandbox: this.#start(key, from, request) };
    } catch (error) {
      if (error instanceof DenvError) return { error: error.toBody().error };
      throw error;
    }
  }

  async #verify(id: string, request: VerifyRequest, options: KeyedOptions): Promise<VerifyReply> {
    const { wait: _wait, labels: _labels, ...effect } = parse(VerifySchema, request);
    const refuse = () => this.#sandbox(id);
    return this.#keyed('verify', options, id, { effect, refuse }, async (context) => {
      if (effect.stop) this.#markStopped(id, 'outside', 'verify_stop');
      const version = this.#freeze(options.key, id);
      const reply =
        (await this.handlers.verify?.(request, { ...context, version })) ?? reward(version, 1);
      this.#record(id, 'verified', { key: options.key, ...reply });
      return reply;
    });
  }

  async #verifyVersion(
    version: string,
    request: VerifyRequest,
    options: KeyedOptions,
  ): Promise<VerifyReply> {
    const { wait: _wait, labels: _labels, ...effect } = parse(VerifySchema, request);
    const refuse = () => this.#versions.tree(version);
    return this.#keyed('verify', options, version, { effect, refuse }, async (context) => {
      const { log } = this.#versions.tree(version);
      const reply =
        (await this.handlers.verify?.(request, { ...context, log, version })) ?? reward(version, 1);
      const about = this.#versions.view(version).sandbox ?? version;
      this.#record(about, 'verified', { key: options.key, ...reply });
      return reply;
    });
  }

  async #exec(id: string, request: ExecRequest, options: KeyedOptions): Promise<ExecReply> {
    const { wait: _wait, ...effect } = parse(ExecSchema, request);
    const refuse = () => this.#running(id);
    return this.#keyed('exec', options, id, { effect, refuse }, (context) =>
      this.#withSnapshot(
        request,
        context,
        async () => (await this.handlers.exec?.(request, context)) ?? answerExec(request, context),
      ),
    );
  }

  async #call(id: string, request: CallRequest, options: KeyedOptions): Promise<CallReply> {
    const { wait: _wait, ...effect } = parse(CallSchema, request);
    const refuse = () => this.#running(id);
    return this.#keyed('call', options, id, { effect, refuse }, (context) =>
      this.#withSnapshot(request, context, async () => {
        this.#refuseSecond(request, context);
        return (await this.handlers.call?.(request, context)) ?? answerCall(request, context);
      }),
    );
  }

  /** The snapshot that a command or call asks for, before or after it. What is lost in between names the version before. */
  async #withSnapshot<T extends object>(
    { snapshot }: Pick<CallRequest, 'snapshot'>,
    { key, sandboxId }: FakeContext,
    work: () => Promise<T> | T,
  ): Promise<T> {
    const took = (found: { version: string; unchanged?: boolean }) => ({
      ...found,
      snapshotS: 0.01,
      flushS: 0.001,
    });
    if (snapshot === undefined) return work();
    if (snapshot === 'after') {
      const reply = await work();
      return { ...reply, ...took({ version: this.#freeze(key, sandboxId) }) };
    }
    const before = this.#freezeBefore(key, sandboxId, snapshot === 'changed');
    try {
      return { ...(await work()), ...took(before) };
    } catch (error) {
      const names = ['outcome_unknown', 'sandbox_stopped'];
      if (!(error instanceof DenvError) || !names.includes(error.code)) throw error;
      const details = { ...error.details, version: before.version };
      throw new DenvError(error.code, error.message, { details });
    }
  }

  #freezeBefore(key: string, id: string, onlyIfChanged: boolean) {
    if (!onlyIfChanged) return { version: this.#freeze(key, id) };
    const last = this.#lastVersion.get(id);
    const unchanged = last !== undefined && this.#versions.isSame(last, this.#tree(id));
    return { version: unchanged ? last : this.#freeze(key, id), unchanged };
  }

  #freeze(
    key: string,
    sandboxId: string,
    { labels, retentionS }: Pick<SnapshotRequest, 'labels' | 'retentionS'> = {},
  ): string {
    const version = versionIdOf(key);
    if (this.versions.has(version)) return version;
    const all = { ...this.#sandbox(sandboxId).labels, ...labels };
    this.#versions.keep(version, this.#tree(sandboxId), {
      sandbox: sandboxId,
      labels: all,
      retentionS,
    });
    this.#lastVersion.set(sandboxId, version);
    this.#record(sandboxId, 'snapshot', { version });
    return version;
  }

  #refuseSecond({ method }: CallRequest, { key, sandboxId }: FakeContext): void {
    if (method !== 'hud/start' && method !== 'hud/grade') return;
    const once = method === 'hud/start' ? 'start' : 'grade';
    const had = this.hud.get(sandboxId) ?? {};
    if (had[once] !== undefined || (once === 'grade' && had.start === undefined)) {
      const why = had[once] ?? 'no start';
      throw new DenvError('invalid_request', `${method} in ${sandboxId}: ${why}`);
    }
    this.hud.set(sandboxId, { ...had, [once]: key });
  }

  #filesOf(id: string): Map<string, Buffer> {
    return this.#files.get(id) ?? new Map();
  }

  #tree(id: string): FakeTree {
    return { log: this.logs.get(id) ?? [], files: this.#filesOf(id) };
  }

  #record(sandbox: string, event: RecordEntry['event'], data: RecordEntry['data'] = {}): void {
    const entries = this.#records.get(sandbox) ?? [];
    const at = new Date().toISOString();
    this.#records.set(sandbox, [...entries, { seq: entries.length + 1, at, event, data }]);
  }

  #refuseGone(id: string): void {
    if (this.deleted.includes(id)) throw new DenvError('sandbox_gone', `sandbox ${id} was deleted`);
  }

  #sandbox(id: string): Sandbox {
    const sandbox = this.sandboxes.get(id);
    if (sandbox) return sandbox;
    this.#refuseGone(id);
    throw new DenvError('sandbox_not_found', `there is no sandbox ${id}`);
  }

  #running(id: string): Sandbox {
    const { state, stopped } = this.#sandbox(id);
    if (state === 'running') return this.#touch(id);
    throw new DenvError('sandbox_stopped', `sandbox ${id} is stopped`, { details: { stopped } });
  }

  #touch(id: string, leaseS = this.#leaseS.get(id) ?? LEASE_S): Sandbox {
    const sandbox = this.#sandbox(id);
    const until = Math.max(Date.parse(sandbox.leaseUntil), Date.now() + leaseS * 1000);
    const touched = { ...sandbox, leaseUntil: new Date(until).toISOString() };
    this.sandboxes.set(id, touched);
    return touched;
  }

  #markStopped(id: string, by: StopEvidence['by'], what: StopEvidence['what']): void {
    const sandbox = this.#sandbox(id);
    if (sandbox.state !== 'running') return;
    const stopped: StopEvidence = { by, what, at: new Date().toISOString() };
    this.sandboxes.set(id, { ...sandbox, state: 'stopped', stopped });
    this.#record(id, 'stopped', { ...stopped });
  }
}

function answerExec(request: ExecRequest, { log }: FakeContext): ExecReply {
  log.push(request.argv.join(' '));
  const stdout = log.join('\n');
  return { exitCode: 0, stdout, stderr: '', truncated: false, timedOut: false, durationS: 0.1 };
}

function answerCall({ method, params = {} }: CallRequest, { log }: FakeContext): CallReply {
  if (method === 'tools/list') {
    return { result: { tools: fakeTools }, timedOut: false, durationS: 0.01 };
  }
  if (method === 'hud/start') return hudResult({ prompt: 'Mend it, says HUD.' });
  if (method === 'hud/grade') return hudGrade({ score: 1 });
  const { name, arguments: given } = params as { name: string; arguments: { line?: string } };
  if (name === 'write') log.push(given.line ?? '');
  return textReply(log.join('\n'));
}

/** @throws DenvError invalid_request, as the server does for what its schema refuses */
function parse<S extends z.ZodType>(schema: S, request: unknown): z.output<S> {
  const parsed = schema.safeParse(request);
  if (parsed.success) return parsed.data;
  throw new DenvError('invalid_request', parsed.error.message);
}
