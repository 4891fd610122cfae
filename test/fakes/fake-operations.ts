import { DenvError, toDenvError } from '../../denv/errors';
import { digestOf } from '../../denv/server/operations';
import type { Operation } from '../../contracts/denv';

export type Release = 'cancelled' | 'released';

interface Kept {
  kind: string;
  sandbox: string;
  digest: string;
  outcome: Promise<unknown>;
  /** Null while it runs. */
  done: { status: number; body: unknown } | null;
}

/** Keyed operations in memory, by the rules of the real server: see denv/server/operations.ts. */
export class FakeOperations {
  /** Every effect that began, in order: `<kind> <key>`. */
  readonly effects: string[] = [];
  readonly #kept = new Map<string, Kept>();
  readonly #hanging = new Map<string, (why: Release) => void>();
  readonly #waiters: { end: string; resolve: () => void }[] = [];

  /** Begins the operation of a key, or joins it. `refuse` throws before there is any effect: then nothing is kept. */
  async run<T>(
    operation: {
      kind: string;
      key: string;
      sandbox: string;
      effect: unknown;
      signal?: AbortSignal;
    },
    refuse: () => void,
    work: (hang: () => Promise<Release>) => Promise<T> | T,
  ): Promise<T> {
    const { kind, key, sandbox, effect, signal } = operation;
    const digest = digestOf([kind, sandbox, effect]);
    const before = this.#kept.get(key);
    if (before) {
      if (before.digest !== digest) throw new DenvError('key_conflict', `key ${key} was used`);
      return untilAborted(before.outcome as Promise<T>, signal); // of the same kind, as its digest says
    }
    refuse();
    this.note(`${kind} ${key}`);
    const hang = () => new Promise<Release>((resolve) => this.#hanging.set(key, resolve));
    const outcome = (async () => work(hang))();
    const kept: Kept = { kind, sandbox, digest, outcome, done: null };
    this.#kept.set(key, kept);
    outcome.then(
      (body) => {
        kept.done = { status: 200, body };
      },
      (error: unknown) => {
        const known = toDenvError(error);
        kept.done = { status: known.status, body: known.toBody() };
        if (error instanceof DenvError && error.retryable) this.#kept.delete(key);
      },
    );
    return untilAborted(outcome, signal);
  }

  note(effect: string): void {
    this.effects.push(effect);
    for (const waiter of this.#waiters) if (effect.endsWith(waiter.end)) waiter.resolve();
  }

  /** Resolves once an effect has begun whose key or id ends so. */
  began(end: string): Promise<void> {
    if (this.effects.some((effect) => effect.endsWith(end))) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push({ end, resolve }));
  }

  async find(key: string, waitS: number): Promise<Operation> {
    const found = this.#kept.get(key);
    if (!found) throw new DenvError('operation_not_found', `no operation has the key ${key}`);
    if (!found.done && waitS > 0) await found.outcome.catch(() => undefined);
    if (!found.done) return { key, kind: found.kind, state: 'running' };
    return { key, kind: found.kind, state: 'done', ...found.done };
  }

  /** Ends the wait of those that hang; whatever else one waits for goes on. */
  end(why: Release, which: (key: string) => boolean): void {
    for (const [key, resolve] of this.#hanging) {
      if (!which(key)) continue;
      this.#hanging.delete(key);
      resolve(why);
    }
  }

  cancelAll(sandbox: string): void {
    this.end('cancelled', (key) => this.#kept.get(key)?.sandbox === sandbox);
  }

  get running(): number {
    return [...this.#kept.values()].filter(({ done }) => done === null).length;
  }
}

/** A caller that lets go stops waiting; the operation goes on. */
function untilAborted<T>(outcome: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return outcome;
  const aborted = new Promise<never>((_resolve, reject) => {
    const fail = () => reject(signal.reason as Error);
    if (signal.aborted) fail();
    signal.addEventListener('abort', fail, { once: true });
  });
  return Promise.race([outcome, aborted]);
}
