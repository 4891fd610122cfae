import type {
  ForkReply,
  ParsedCreateSandboxRequest,
  ParsedForkRequest,
  Sandbox,
} from '../../contracts/denv';
import type { ImageSource } from '../drivers/driver';
import { DenvError, toDenvError } from '../errors';
import { execIdOf, forkChildKey, sandboxIdOf } from '../ids';
import type { ServerContext } from './context';
import type { Controllers } from './controllers';
import type { ControllerRuntime, RuntimeSpec, SandboxRow, VersionRow } from './journal';
import { type OperationContext, RolledBack } from './operations';
import { type Sandboxes, toSandbox, uidOfUser } from './sandboxes';

/** Starts that run at once; the rest wait their turn, since each is mostly processor time. */
const MAX_STARTS = 16;

interface CreateWork {
  sandboxId: string;
  spec: RuntimeSpec;
  version: string;
  forkedFrom: SandboxRow['forkedFrom'];
  labels: Record<string, string>;
  leaseS: number;
  ports: number[];
}

interface ForkWork {
  sandboxId: string | null;
  versionId: string | null;
  count: number;
  labels: Record<string, string>;
  leaseS: number;
  ports: number[];
}

/** Birth and death of sandboxes: create, fork and delete, each redone whole when the server died in the middle of it. */
export class Lifecycle {
  private starting = 0;
  private readonly queue: (() => void)[] = [];
  private readonly deleting = new Map<string, Promise<void>>();

  constructor(
    private readonly context: ServerContext,
    private readonly sandboxes: Sandboxes,
    private readonly controllers: Controllers,
  ) {
    context.operations.register('create', (operation) => this.create(operation));
    context.operations.register('fork', (operation) => this.fork(operation));
  }

  /** Resolves a create request; every refusal comes before any effect. */
  async prepareCreate(key: string, request: ParsedCreateSandboxRequest): Promise<CreateWork> {
    const sandboxId = sandboxIdOf(key);
    this.refuseUnsupported(request);
    this.refuseGone(sandboxId);
    await this.refuseOverload(1);
    const common = {
      sandboxId,
      labels: request.labels ?? {},
      leaseS: request.leaseS ?? this.context.settings.defaultLeaseS,
      ports: request.ports ?? [],
    };
    if (request.version !== undefined) {
      const version = this.sandboxes.version(request.version);
      const spec = overSpec(version.spec, request);
      const from = { sandbox: version.sandbox, version: version.id };
      return { ...common, spec, version: version.id, forkedFrom: from };
    }
    const spec = await this.specOf(request);
    return { ...common, spec, version: this.startVersion(spec).id, forkedFrom: null };
  }

  async prepareFork(
    source: { sandboxId: string } | { versionId: string },
    request: ParsedForkRequest,
  ): Promise<ForkWork> {
    if ('sandboxId' in source) this.forkable(source.sandboxId);
    else this.sandboxes.version(source.versionId);
    await this.refuseOverload(request.count);
    return {
      sandboxId: 'sandboxId' in source ? source.sandboxId : null,
      versionId: 'versionId' in source ? source.versionId : null,
      count: request.count,
      labels: request.labels ?? {},
      leaseS: request.leaseS ?? this.context.settings.defaultLeaseS,
      ports: request.ports ?? [],
    };
  }

  /**
   * Deletes a sandbox and all that runs in it. Idempotent: gone is success, and an id never seen leaves a tombstone, so that
   * a create of it that comes later is refused.
   */
  async remove(id: string): Promise<void> {
    const running = this.deleting.get(id);
    if (running) return running;
    const removal = this.removeNow(id).finally(() => this.deleting.delete(id));
    this.deleting.set(id, removal);
    return removal;
  }

  private async removeNow(id: string): Promise<void> {
    const { journal, operations, driver } = this.context;
    if (journal.deletedSandbox(id)) return;
    if (!this.sandboxes.find(id)) {
      journal.putTombstone(id);
      await operations.cancelAll(id);
      if (!this.sandboxes.find(id)) return;
    }
    const row = this.sandboxes.get(id);
    if (row.state !== 'creating') {
      row.state = 'deleting';
      this.sandboxes.put(row);
    }
    await operations.cancelAll(id);
    this.controllers.close(id);
    await driver.remove(id);
    const left = this.sandboxes.find(id);
    if (left) this.sandboxes.markDeleted(left);
    else journal.putTombstone(id);
  }

  private async create(operation: OperationContext): Promise<Sandbox> {
    const work = operation.request as CreateWork; // made by prepareCreate
    if (operation.resumed) await this.undo(work.sandboxId);
    return this.launch(operation.key, work, operation.signal);
  }

  private async fork(operation: OperationContext): Promise<ForkReply> {
    const work = operation.request as ForkWork; // made by prepareFork
    const version = await this.forkedVersion(operation.key, work);
    const children = Array.from({ length: work.count }, (_, n) => forkChildKey(operation.key, n));
    const replies = await Promise.all(
      children.map(async (key) => {
        const sandboxId = sandboxIdOf(key);
        try {
          if (operation.resumed) await this.undo(sandboxId);
          this.refuseGone(sandboxId);
          const sandbox = await this.launch(
            key,
            {
              sandboxId,
              spec: version.spec,
              version: version.id,
              forkedFrom: { sandbox: version.sandbox, version: version.id },
              labels: work.labels,
              leaseS: work.leaseS,
              ports: work.ports,
            },
            operation.signal,
          );
          return { sandbox };
        } catch (error) {
          const cause = error instanceof RolledBack ? error.cause : error;
          return { error: toDenvError(cause).toBody().error };
        }
      }),
    );
    return { version: version.id, pausedMs: version.pausedMs, children: replies };
  }

  private async forkedVersion(key: string, work: ForkWork): Promise<VersionRow> {
    if (work.versionId !== null) return this.sandboxes.version(work.versionId);
    try {
      const row = this.forkable(work.sandboxId ?? '');
      return await this.sandboxes.takeVersion(row, key, { stop: false });
    } catch (error) {
      throw toDenvError(error).retryable ? new RolledBack(error) : error;
    }
  }

  private forkable(id: string): SandboxRow {
    const row = this.sandboxes.get(id);
    return row.state === 'stopped' ? row : this.sandboxes.running(id);
  }

  /** Makes the sandbox run and waits for its controller. What fails is removed again. */
  private async launch(key: string, work: CreateWork, signal: AbortSignal): Promise<Sandbox> {
    const row: SandboxRow = {
      id: work.sandboxId,
      key,
      state: 'creating',
      spec: work.spec,
      version: work.version,
      forkedFrom: work.forkedFrom,
      labels: work.labels,
      createdAt: Date.now(),
      leaseUntil: Date.now() + work.leaseS * 1000,
      controller: { execId: null, ready: false, sessionId: null, protocolVersion: null },
      ports: {},
      stopped: null,
      deletedAt: null,
    };
    this.sandboxes.put(row);
    await this.turn();
    try {
      await this.bringUp(row, work, signal);
    } catch (error) {
      await this.undo(row.id);
      throw toDenvError(error).retryable ? new RolledBack(error) : error;
    } finally {
      this.release();
    }
    return toSandbox(row);
  }

  private async bringUp(row: SandboxRow, work: CreateWork, signal: AbortSignal): Promise<void> {
    const { driver, journal } = this.context;
    const version = this.sandboxes.version(work.version);
    await driver.create({
      sandboxId: row.id,
      from:
        version.base === null
          ? { kind: 'version', versionId: version.id }
          : { kind: 'base', base: version.base },
      image: row.spec.image,
      caps: row.spec.caps,
    });
    if (row.spec.command) {
      await driver.startExec(row.id, execIdOf(`${row.key}/command`), {
        argv: row.spec.command,
        uid: row.spec.uid,
        cwd: row.spec.workdir,
        env: row.spec.env,
        stdin: null,
      });
    }
    await this.controllers.start(row, signal);
    for (const port of work.ports) row.ports[port] = await driver.publish(row.id, port, null);
    if (signal.aborted) throw new DenvError('sandbox_gone', `sandbox ${row.id} was deleted`);
    row.state = 'running';
    journal.transaction(() => {
      this.sandboxes.put(row);
      journal.record(row.id, row.forkedFrom ? 'forked' : 'created', {
        version: row.version,
        digest: row.spec.digest,
        from: row.forkedFrom,
        labels: row.labels,
      });
    });
    this.controllers.watch(row);
  }

  private async undo(sandboxId: string): Promise<void> {
    this.controllers.close(sandboxId);
    await this.context.driver.remove(sandboxId);
    this.sandboxes.forget(sandboxId);
  }

  private async specOf(request: ParsedCreateSandboxRequest): Promise<RuntimeSpec> {
    const image = parseImage(request.image);
    const prepared = await this.context.driver.prepareBase(image, toArchives(request.files ?? []));
    const caps = { ...this.context.settings.defaultCaps, ...definedCaps(request.caps) };
    const uid = uidOfUser(request.user);
    return {
      image,
      ...prepared,
      env: request.env ?? {},
      workdir: request.workdir ?? '/workspace',
      uid,
      caps,
      command: request.command ?? null,
      controller: controllerOf(request.controller, uid),
    };
  }

  /** An image's untouched start version: the prepared tree itself, under a version id of its own. */
  private startVersion(spec: RuntimeSpec): VersionRow {
    const id = `ver_base_${spec.digest.replace(/^sha256:/, '').slice(0, 24)}`;
    const kept = this.context.journal.version(id);
    const version: VersionRow = {
      id,
      sandbox: null,
      base: spec.base,
      spec,
      createdAt: kept?.createdAt ?? Date.now(),
      retainUntil: Number.MAX_SAFE_INTEGER,
      labels: {},
      pausedMs: null,
      flushMs: null,
    };
    if (!kept) this.context.journal.putVersion(version);
    return version;
  }

  private refuseUnsupported(request: ParsedCreateSandboxRequest): void {
    const { driver } = this.context;
    if ((request.image === undefined) === (request.version === undefined)) {
      throw new DenvError('invalid_request', 'exactly one of `image` and `version` is needed');
    }
    if (request.target !== undefined && request.target !== driver.name) {
      throw new DenvError(
        'capability_missing',
        `target: there is no target ${request.target}; this server has ${driver.name}`,
      );
    }
    if (request.gpu !== undefined) {
      throw new DenvError('capability_missing', `gpu: target ${driver.name} has none`);
    }
    if (request.caps?.diskMb !== undefined) {
      throw new DenvError(
        'capability_missing',
        `caps.diskMb: target ${driver.name} cannot hold a disk limit`,
      );
    }
  }

  private refuseGone(id: string): void {
    const { journal } = this.context;
    if (journal.hasTombstone(id) || journal.deletedSandbox(id)) {
      throw new DenvError('sandbox_gone', `sandbox ${id} was deleted before it was created`);
    }
  }

  private async refuseOverload(count: number): Promise<void> {
    const { settings, driver } = this.context;
    const live = this.sandboxes.all().length;
    if (live + count > settings.maxSandboxes) {
      throw new DenvError(
        'over_capacity',
        `${live} sandboxes live; this server takes ${settings.maxSandboxes}`,
        {
          retryAfterS: 5,
        },
      );
    }
    const free = await driver.freeBytes();
    if (free < settings.minFreeBytes) {
      throw new DenvError(
        'disk_full',
        `only ${Math.round(free / 1024 ** 2)} MB free for sandbox data; ${Math.round(settings.minFreeBytes / 1024 ** 2)} MB are needed`,
      );
    }
  }

  private async turn(): Promise<void> {
    if (this.starting >= MAX_STARTS) await new Promise<void>((go) => this.queue.push(go));
    this.starting += 1;
  }

  private release(): void {
    this.starting -= 1;
    this.queue.shift()?.();
  }
}

/** `host`, `dir:PATH` or `tar:PATH`. @throws DenvError invalid_request */
export function parseImage(image: string | undefined): ImageSource {
  if (image === 'host') return { kind: 'host' };
  const match = /^(dir|tar):(\/.*)$/.exec(image ?? '');
  if (match?.[1] && match[2]) return { kind: match[1] === 'dir' ? 'dir' : 'tar', path: match[2] };
  throw new DenvError(
    'invalid_request',
    `image: ${JSON.stringify(image)} is not supported; it is \`host\`, \`dir:/PATH\` or \`tar:/PATH\``,
  );
}

export function toArchives(
  files: { to: string; tarBase64: string }[],
): { to: string; tar: Buffer }[] {
  return files.map((tree) => ({ to: tree.to, tar: Buffer.from(tree.tarBase64, 'base64') }));
}

function controllerOf(
  controller: ParsedCreateSandboxRequest['controller'],
  uid: number,
): ControllerRuntime {
  if (!controller) return { kind: 'shell', uid };
  const own = controller.user === undefined ? uid : uidOfUser(controller.user);
  switch (controller.kind) {
    case 'shell':
      return { kind: 'shell', uid: own };
    case 'mcp-http':
      return { ...controller, command: controller.command ?? null, uid: own };
    case 'mcp-stdio':
      return { ...controller, uid: own };
  }
}

/** A version's spec with what a create asks otherwise. @throws DenvError invalid_request */
function overSpec(spec: RuntimeSpec, request: ParsedCreateSandboxRequest): RuntimeSpec {
  if (request.files?.length) {
    throw new DenvError('invalid_request', 'files: not with `version`; a version has its files');
  }
  const uid = request.user === undefined ? spec.uid : uidOfUser(request.user);
  return {
    ...spec,
    uid,
    env: { ...spec.env, ...request.env },
    workdir: request.workdir ?? spec.workdir,
    caps: { ...spec.caps, ...definedCaps(request.caps) },
    command: request.command ?? spec.command,
    controller: request.controller ? controllerOf(request.controller, uid) : spec.controller,
  };
}

function definedCaps(caps: ParsedCreateSandboxRequest['caps']): Partial<RuntimeSpec['caps']> {
  return Object.fromEntries(Object.entries(caps ?? {}).filter(([, v]) => v !== undefined));
}
