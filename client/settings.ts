import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

/** Where everything of one installation lies. */
export interface Paths {
  home: string;
  temporalDb: string;
  denvData: string;
  denvKey: string;
  /** Trees that sandboxes may be made from. */
  images: string;
  blobs: string;
  ledger: string;
  owner: string;
  logs: string;
  run: string;
  prices: string;
}

/** What the environment says, typed. */
export interface Settings {
  paths: Paths;
  /** A Temporal that somebody else runs; null: the stack starts its own. */
  temporalAddress: string | null;
  namespace: string;
  /** A denv server that somebody else runs; null: the stack starts its own. */
  denvServer: string | null;
  denvApiKey: string | null;
  taskQueue: string;
  /** A Temporal command to use whatever else there is. */
  temporalCli: string | null;
  /** Where scripts/setup keeps the programs that it brings. */
  toolCache: string;
  searchPath: string;
}

export function settingsFrom(env: NodeJS.ProcessEnv): Settings {
  const userHome = env['HOME'] || homedir();
  const state = env['XDG_STATE_HOME'] || join(userHome, '.local', 'state');
  const cache = env['XDG_CACHE_HOME'] || join(userHome, '.cache');
  return {
    paths: pathsIn(resolve(env['ROLLOUTS_HOME'] || join(state, 'denv-rollouts'))),
    temporalAddress: env['TEMPORAL_ADDRESS'] || null,
    namespace: env['TEMPORAL_NAMESPACE'] || 'default',
    denvServer: env['DENV_SERVER'] || null,
    denvApiKey: env['DENV_API_KEY'] || null,
    taskQueue: env['ROLLOUTS_TASK_QUEUE'] || 'rollouts',
    temporalCli: env['TEMPORAL_CLI'] || null,
    toolCache: join(cache, 'denv-rollouts'),
    searchPath: env['PATH'] ?? '',
  };
}

function pathsIn(home: string): Paths {
  return {
    home,
    temporalDb: join(home, 'temporal', 'temporal.db'),
    denvData: join(home, 'denv'),
    denvKey: join(home, 'denv', 'key'),
    images: join(home, 'images'),
    blobs: join(home, 'blobs'),
    ledger: join(home, 'ledger.db'),
    owner: join(home, 'owner'),
    logs: join(home, 'logs'),
    run: join(home, 'run'),
    prices: join(home, 'prices.json'),
  };
}

/** Makes the folders of a home, readable by its owner alone. Idempotent. */
export function prepareHome(paths: Paths): void {
  mkdirSync(paths.home, { recursive: true, mode: 0o700 });
  for (const folder of [
    dirname(paths.temporalDb),
    paths.denvData,
    paths.images,
    paths.logs,
    paths.run,
  ]) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }
}

/** The key of the embedded denv server: made once, then read. */
export function embeddedDenvKey(paths: Paths): string {
  return readOrMake(paths.denvKey, () => `dak_${randomBytes(24).toString('hex')}`);
}

/** Linked to its name when it is whole, so that of two processes that make it both read the same one. */
function readOrMake(path: string, make: () => string): string {
  if (!existsSync(path)) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const whole = `${path}.${randomBytes(4).toString('hex')}`;
    writeFileSync(whole, `${make()}\n`, { mode: 0o600 });
    try {
      linkSync(whole, path);
    } catch (error) {
      if (Reflect.get(Object(error), 'code') !== 'EEXIST') throw error;
    } finally {
      rmSync(whole);
    }
  }
  return readFileSync(path, 'utf8').trim();
}
