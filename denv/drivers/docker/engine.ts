import type Docker from 'dockerode';
import { existsSync } from 'node:fs';
import { DenvError } from '../../errors';

/** Time for one request: making a container copies a whole image where the engine has no better storage. */
const requestMs = 120_000;

export interface Engine {
  /**
   * Asks the engine something. `what` begins the message when it does not work.
   * @throws DenvError unavailable when no engine answers; internal with the engine's own words for anything else
   */
  ask<T>(what: string, request: (docker: Docker) => Promise<T>): Promise<T>;
  /** The same; null where the engine knows no such thing, or has it in that state already. */
  find<T>(what: string, request: (docker: Docker) => Promise<T>): Promise<T | null>;
  /** Why there can be no engine; null when there may be one. */
  absent(): string | null;
}

/** Statuses that answer a request for what is so already: no such thing, not modified, removal in progress. */
const already = [404, 304, 409];

/** An engine behind a unix socket. Nothing is loaded or asked before the first request. */
export function createEngine(socketPath: string): Engine {
  let client: Docker | null = null;

  // 30 MB and 200 ms, for those who have an engine.
  function docker(): Docker {
    client ??= new (require('dockerode') as typeof Docker)({ socketPath, timeout: requestMs });
    return client;
  }

  function absent(): string | null {
    if (!socketPath.startsWith('/')) {
      return `${socketPath} is no unix socket: only an engine of this host can be used`;
    }
    return existsSync(socketPath) ? null : `no Docker engine: there is no ${socketPath}`;
  }

  async function ask<T>(what: string, request: (docker: Docker) => Promise<T>): Promise<T> {
    const reason = absent();
    if (reason !== null) throw new DenvError('unavailable', `${what}: ${reason}`);
    try {
      return await request(docker());
    } catch (error) {
      if (error instanceof DenvError) throw error;
      const message = `${what}: ${toMessage(error)}`;
      if (statusOf(error) !== null) throw new DenvError('internal', message, { cause: error });
      throw new DenvError('unavailable', `${message} (Docker engine at ${socketPath})`, {
        cause: error,
      });
    }
  }

  async function find<T>(what: string, request: (docker: Docker) => Promise<T>): Promise<T | null> {
    return ask(what, (engine) =>
      request(engine).catch((error: unknown) => {
        if (already.includes(statusOf(error) ?? 0)) return null;
        throw error;
      }),
    );
  }

  return { ask, find, absent };
}

/** The socket that DOCKER_HOST names, by default the usual one; an address over the network is kept, to be refused by name. */
export const socketPathOf = (dockerHost: string | undefined): string =>
  dockerHost ? dockerHost.replace(/^unix:\/\//, '') : '/var/run/docker.sock';

/** An HTTP status that the engine answered with; null when it did not answer. */
function statusOf(error: unknown): number | null {
  if (typeof error !== 'object' || error === null || !('statusCode' in error)) return null;
  return typeof error.statusCode === 'number' ? error.statusCode : null;
}

function toMessage(error: unknown): string {
  if (typeof error !== 'object' || error === null) return String(error);
  if ('json' in error && typeof error.json === 'object' && error.json !== null) {
    if ('message' in error.json) return String(error.json.message);
  }
  return 'message' in error ? String(error.message) : 'no reason given';
}
