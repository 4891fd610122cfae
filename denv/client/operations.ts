import type { z } from 'zod';
import { Operation, OperationPending } from '../../contracts/denv';
import { parseReply, toError, type Transport } from './transport';

/** Options of a keyed call that may take long. `signal` ends the wait; it never cancels the operation. */
export interface KeyedOptions {
  key: string;
  signal?: AbortSignal;
}

export interface OperationCalls {
  operation(key: string, options?: { waitS?: number; signal?: AbortSignal }): Promise<Operation>;
  /** Kills the running command or call of that key, if there is one; its outcome is then kept as killed. */
  cancelOperation(key: string): Promise<void>;
}

/** A request that waits on the server may take what it waits, and this much over. */
const GRACE_S = 60;

/** Keyed operations of a server: begun once, then asked for until they are done. */
export class Operations implements OperationCalls {
  /** @param pollS  seconds that one HTTP request may wait for an operation before it asks again */
  constructor(
    private readonly transport: Transport,
    private readonly pollS: number,
  ) {}

  /** Begins the operation of a key, or joins it, and waits for its end. */
  async run<S extends z.ZodType>(
    schema: S,
    path: string,
    body: object,
    options: KeyedOptions,
  ): Promise<z.output<S>> {
    const response = await this.transport.fetch('POST', path, {
      body: { ...body, wait: this.pollS },
      key: options.key,
      signal: options.signal,
      timeoutS: this.pollS + GRACE_S,
    });
    const reply: unknown = await response.json();
    if (response.status !== 202) return parseReply(schema, reply, `POST ${path}`);
    parseReply(OperationPending, reply, `POST ${path}`);
    return this.waitFor(schema, options);
  }

  operation(key: string, options: { waitS?: number; signal?: AbortSignal } = {}) {
    const waitS = options.waitS ?? 0;
    return this.transport.fetchJson(Operation, 'GET', `${pathOf(key)}?wait=${waitS}`, {
      signal: options.signal,
      timeoutS: waitS + GRACE_S,
    });
  }

  async cancelOperation(key: string): Promise<void> {
    await this.transport.fetch('DELETE', pathOf(key));
  }

  private async waitFor<S extends z.ZodType>(
    schema: S,
    { key, signal }: KeyedOptions,
  ): Promise<z.output<S>> {
    for (;;) {
      const operation = await this.operation(key, { waitS: this.pollS, signal });
      if (operation.state === 'running') continue;
      if (operation.status >= 400) throw toError(operation.body, operation.status, key);
      return parseReply(schema, operation.body, `operation ${key}`);
    }
  }
}

const pathOf = (key: string) => `/v1/operations/${encodeURIComponent(key)}`;
