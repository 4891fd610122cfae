import type { ParsedCreateSandboxRequest, ParsedForkRequest } from '../../contracts/denv';
import type { ImageSource } from '../drivers/driver';
import { DenvError } from '../errors';
import { sandboxIdOf } from '../ids';
import type { HeldTree } from './archives';
import type { ServerContext } from './context';
import type { RuntimeSpec, SandboxRow, VersionRow } from './rows';
import { controllerOf, definedCaps, overSpec, sourceOf } from './runtime-spec';
import type { Sandboxes } from './sandboxes';
import { targetOf } from './targets';
import { uidOfUser } from './views';

export interface CreateWork {
  sandboxId: string;
  spec: RuntimeSpec;
  version: string;
  forkedFrom: SandboxRow['forkedFrom'];
  labels: Record<string, string>;
  leaseS: number;
  ports: number[];
}

export interface ForkWork {
  sandboxId: string | null;
  versionId: string | null;
  count: number;
  labels: Record<string, string>;
  leaseS: number;
  ports: number[];
}

/** What is forked or verified: a sandbox as it is, or a kept version. */
export type TreeSource = { sandboxId: string } | { versionId: string };

/** What a create or a fork needs before it begins: its request resolved, and every refusal, so that none leaves anything. */
export class Preparation {
  constructor(
    private readonly context: ServerContext,
    private readonly sandboxes: Sandboxes,
  ) {}

  /** Resolves a create request; every refusal comes before any effect. */
  async create(
    key: string,
    request: ParsedCreateSandboxRequest,
    trees: HeldTree[],
  ): Promise<CreateWork> {
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
    const spec = await this.specOf(request, trees);
    return { ...common, spec, version: this.startVersion(spec).id, forkedFrom: null };
  }

  async fork(source: TreeSource, request: ParsedForkRequest): Promise<ForkWork> {
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

  /** A running sandbox, or a stopped one: its files are there. */
  forkable(id: string): SandboxRow {
    const row = this.sandboxes.get(id);
    return row.state === 'stopped' ? row : this.sandboxes.running(id);
  }

  private async specOf(
    request: ParsedCreateSandboxRequest,
    trees: HeldTree[],
  ): Promise<RuntimeSpec> {
    const image = sourceOf(request);
    refuseForeign(image, request);
    const { driver, archives } = this.context;
    const prepared = await archives.prepare(driver, image, trees);
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
    const sources = [request.image, request.version, request.address];
    if (sources.filter((source) => source !== undefined).length !== 1) {
      throw new DenvError(
        'invalid_request',
        'exactly one of `image`, `version` and `address` is needed',
      );
    }
    if (request.target !== undefined) driver.require(request.target);
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

  refuseGone(id: string): void {
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
}

/** What only sandboxes that are made here can have. */
function refuseForeign(image: ImageSource, request: ParsedCreateSandboxRequest): void {
  const target = targetOf(image);
  if (target === 'linux') return;
  const asked = {
    files: request.files?.length,
    command: request.command,
    ports: request.ports?.length,
    user: request.user,
    workdir: request.workdir,
    ...(target === 'tcp'
      ? { env: request.env, caps: request.caps, 'controller.command': commandOf(request) }
      : {}),
  };
  const field = Object.entries(asked).find(([, value]) => Boolean(value))?.[0];
  if (field !== undefined) {
    throw new DenvError('capability_missing', `${field}: not on target ${target}`);
  }
  const kind = request.controller?.kind;
  if (kind === 'hud' || kind === 'mcp-http') return;
  throw new DenvError(
    'capability_missing',
    `controller: target ${target} takes the kinds hud and mcp-http, which answer on a port`,
  );
}

function commandOf({ controller }: ParsedCreateSandboxRequest): string[] | undefined {
  return controller && 'command' in controller ? controller.command : undefined;
}
