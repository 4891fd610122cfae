import { createHash } from 'node:crypto';
import { DenvError, toDenvError } from '../errors';
import type { Logger } from 'pino';
import type { Journal } from './journal';
import type { OperationRow } from './rows';

export interface Outcome {
  status: number;
  body: unknown;
}

/** What an operation's work gets: its request as journalled, how far an earlier server process came, and its cancellation. */
export interface OperationContext {
  key: string;
  request: unknown;
  phase: Record<string, unknown>;
  /** True when an earlier server process began it. */
  resumed: boolean;
  /** Aborted when its caller cancels the operation or its sandbox is deleted; never when a caller lets go. */
  signal: AbortSignal;
  /** Durable before it returns. */
  setPhase(patch: Record<string, unknown>): void;
  /** Survives the server's death, perhaps not the host's. */
  setPhaseRelaxed(patch: Record<string, unknown>): void;
  /** Writes that must be one commit with the outcome, such as a verdict's record. */
  atFinish(write: () => void): void;
  /** Clean-up that may only happen once the outcome is kept. */
  afterFinish(clean: () => Promise<void>): void;
}

export type OperationWork = (context: OperationContext) => Promise<unknown>;

/** Thrown by work that undid all it had begun: no outcome is kept, and the same key may begin again. */
export class RolledBack extends Error {
  constructor(override readonly cause: unknown) {
    super('rolled back', { cause });
  }
}

/** What work throws that has undone all it had begun: an error that may heal leaves no outcome, any other one is kept. */
export function afterUndo(error: unknown): unknown {
  if (error instanceof RolledBack) return error;
  return toDenvError(error).retryable ? new RolledBack(error) : error;
}

interface Live {
  kind: string;
  digest: string;
  sandbox: string;
  outcome: Promise<Outcome>;
  abort: AbortController;
}

/**
 * Keyed work that outlives its caller. The same key again waits for the running work or returns its kept outcome; another
 * body under the same key is refused. A refusal before any effect is not kept.
 */
export class Operations {
  private readonly live = new Map<string, Live>();
  private readonly works = new Map<string, OperationWork>();

  constructor(
    private readonly journal: Journal,
    private readonly log: Logger,
  ) {}

  /** Names the work of a kind, for new operations and for those that a restart finds. */
  register(kind: string, work: OperationWork): void {
    this.works.set(kind, work);
  }

  get running(): number {
    return this.live.size;
  }

  /**
   * Begins an operation, or joins the one of that key.
   * @param effect  the fields that make the effect; another value under the same key is a conflict
   * @param prepare  validates and resolves the request; its errors are refusals and leave nothing behind
   */
  start(options: {
    key: string;
    kind: string;
    sandbox: string;
    effect: unknown;
    prepare: () => Promise<unknown>;
  }): Promise<Outcome> {
    const digest = digestOf([options.kind, options.sandbox, options.effect]);
    const live = this.live.get(options.key);
    if (live) return live.digest === digest ? live.outcome : Promise.reject(conflict(options.key));
    const kept = this.journal.operation(options.key);
    if (kept?.state === 'done') {
      if (kept.digest !== digest) return Promise.reject(conflict(options.key));
      return Promise.resolve({ status: kept.status, body: kept.body });
    }
    return this.track({ ...options, digest }, async (abort) => {
      const request = await options.prepare();
      if (abort.signal.aborted) throw new DenvError('sandbox_gone', `${options.key} was cancelled`);
      this.journal.beginOperation({ ...options, digest, request });
      return this.execute({ ...options, request, phase: {} }, abort.signal, false);
    });
  }

  /** Takes up every operation that an earlier server process left running. */
  resume(): void {
    for (const row of this.journal.runningOperations()) {
      this.track(row, (abort) => this.execute(row, abort.signal, true)).catch((error: unknown) => {
        // Whoever wants it asks for it again.
        this.log.warn({ err: error, key: row.key }, 'an operation was rolled back after a restart');
      });
    }
  }

  /** The running or kept operation of a key; null when there is none. */
  find(key: string): { kind: string; outcome: Promise<Outcome> } | null {
    const live = this.live.get(key);
    if (live) return live;
    const kept = this.journal.operation(key);
    if (kept?.state !== 'done') return null;
    return {
      kind: kept.kind,
      outcome: Promise.resolve({ status: kept.status, body: kept.body }),
    };
  }

  /** Something runs on a sandbox, or is about to. */
  runsOn(sandbox: string): boolean {
    return [...this.live.values()].some((live) => live.sandbox === sandbox);
  }

  /** Cancels the running operation of a key, if there is one, and waits for its end. */
  async cancel(key: string): Promise<void> {
    const live = this.live.get(key);
    if (!live) return;
    live.abort.abort();
    await live.outcome.catch(() => undefined);
  }

  /** Cancels all that runs on a sandbox and waits for it. */
  async cancelAll(sandbox: string): Promise<void> {
    const keys = [...this.live].filter(([, l]) => l.sandbox === sandbox).map(([key]) => key);
    await Promise.all(keys.map((key) => this.cancel(key)));
  }

  private track(
    op: { key: string; kind: string; sandbox: string; digest: string },
    run: (abort: AbortController) => Promise<Outcome>,
  ): Promise<Outcome> {
    const abort = new AbortController();
    const outcome = run(abort).finally(() => this.live.delete(op.key));
    this.live.set(op.key, {
      kind: op.kind,
      digest: op.digest,
      sandbox: op.sandbox,
      outcome,
      abort,
    });
    return outcome;
  }

  private async execute(
    row: Pick<OperationRow, 'key' | 'kind' | 'request' | 'phase'>,
    signal: AbortSignal,
    resumed: boolean,
  ): Promise<Outcome> {
    const work = this.works.get(row.kind);
    if (!work)
      throw new DenvError('internal', `no work is registered for operations of kind ${row.kind}`);
    const writes: (() => void)[] = [];
    const cleans: (() => Promise<void>)[] = [];
    const phase = { ...row.phase };
    const setPhase = (patch: Record<string, unknown>) => {
      Object.assign(phase, patch);
      this.journal.setPhase(row.key, phase);
    };
    let outcome: Outcome;
    try {
      const body = await work({
        key: row.key,
        request: row.request,
        phase,
        resumed,
        signal,
        setPhase,
        setPhaseRelaxed: (patch) => this.journal.relaxed(() => setPhase(patch)),
        atFinish: (write) => writes.push(write),
        afterFinish: (clean) => cleans.push(clean),
      });
      outcome = { status: 200, body };
    } catch (error) {
      if (error instanceof RolledBack) {
        this.journal.forgetOperation(row.key);
        throw toDenvError(error.cause);
      }
      const known = toDenvError(error);
      outcome = { status: known.status, body: known.toBody() };
    }
    this.journal.transaction(() => {
      for (const write of writes) write();
      this.journal.finishOperation(row.key, outcome.status, outcome.body);
    });
    for (const clean of cleans) this.cleanUp(row.key, clean);
    return outcome;
  }

  /** Nobody waits for clean-up, and what one leaves behind goes with its sandbox. */
  private cleanUp(key: string, clean: () => Promise<void>): void {
    clean().catch((error: unknown) => {
      this.log.warn({ err: error, key }, 'what an operation left could not be removed');
    });
  }
}

function conflict(key: string): DenvError {
  return new DenvError(
    'key_conflict',
    `key ${key} was used before for another request; a second try needs a new key`,
  );
}

/** Digest of a value by content: the order of an object's fields does not count. */
export function digestOf(value: unknown): string {
  return createHash('sha256').update(canonicalJson(value)).digest('hex');
}

function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null';
  const fields = Object.entries(value)
    .filter(([, v]) => v !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${fields.map(([k, v]) => `${JSON.stringify(k)}:${canonicalJson(v)}`).join(',')}}`;
}
