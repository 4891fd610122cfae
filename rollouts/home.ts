import { randomBytes } from 'node:crypto';
import { existsSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { ConfigError, setVariables } from './environment';

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

/** The paths under ROLLOUTS_HOME, which is `denv-rollouts` in the user's state folder where nothing else is set. */
export function pathsFrom(env: NodeJS.ProcessEnv): Paths {
  const { ROLLOUTS_HOME } = setVariables(env);
  const home = resolve(
    ROLLOUTS_HOME ?? join(userFolder(env, 'XDG_STATE_HOME', '.local/state'), name),
  );
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

/** The folder in which scripts/setup keeps the programs that it brings: any home of this user uses them. */
export function toolCacheFrom(env: NodeJS.ProcessEnv): string {
  return join(userFolder(env, 'XDG_CACHE_HOME', '.cache'), name);
}

const name = 'denv-rollouts';

function userFolder(env: NodeJS.ProcessEnv, variable: string, fallback: string): string {
  const given = setVariables(env);
  return given[variable] ?? join(given['HOME'] ?? homedir(), fallback);
}

/** Makes the folders of a home, readable by its owner alone. Idempotent. */
export function prepareHome(paths: Paths): void {
  const { home, temporalDb, denvData, images, logs, run } = paths;
  for (const folder of [home, dirname(temporalDb), denvData, images, logs, run]) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  }
}

/** Makes the key of the embedded denv server where there is none yet, and reads it. */
export function ensureDenvKey(paths: Paths): string {
  if (!existsSync(paths.denvKey))
    makeWhole(paths.denvKey, `dak_${randomBytes(24).toString('hex')}`);
  return readDenvKey(paths);
}

/** Reads the key of the embedded denv server. @throws ConfigError when there is none */
export function readDenvKey({ denvKey }: Paths): string {
  try {
    return readFileSync(denvKey, 'utf8').trim();
  } catch (cause) {
    throw new ConfigError(`DENV_API_KEY is not set, and ${denvKey} cannot be read`, { cause });
  }
}

/** Links a file to its name once it is whole, so that of two processes that make it both read the same one. */
function makeWhole(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const whole = `${path}.${randomBytes(4).toString('hex')}`;
  writeFileSync(whole, `${text}\n`, { mode: 0o600 });
  try {
    linkSync(whole, path);
  } catch (error) {
    if (Reflect.get(Object(error), 'code') !== 'EEXIST') throw error;
  } finally {
    rmSync(whole);
  }
}
