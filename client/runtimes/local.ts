import { existsSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { Environment } from '../../contracts/task';
import { isSet } from '../../tasks/hud/config';
import { PlacementError } from '../../tasks/placement';
import type { LocalTree } from '../../tasks/placement';
import { packTree } from '../../tasks/tree-tar';
import { hudPackages, packagesMissing, packagesPath } from './hud-packages';
import type { RuntimeKind, RuntimeQuestion } from './runtime';
import { otherEnvironments } from './sources';

const appPath = '/app';
const port = 8765;

/** What stands beside sources and is none. */
const leftBehind = ['.git', '.venv', 'venv', '__pycache__', 'node_modules', '.hud', '.mypy_cache'];

export const local = served('local');
/** In HUD the same source in a process of its own; here every environment has one, in a sandbox. */
export const subprocess = served('subprocess');

function served(name: string): RuntimeKind {
  return {
    name,
    syntax: `${name}, ${name}:PATH`,
    target: 'linux',
    what: 'an env.py or its folder, served in a sandbox of image host',
    missing: packagesMissing,
    takes: ['env'],
    async place(question) {
      const { task, options, config } = question;
      refuseImage(question, name);
      const source = sourceOf(question);
      refuseOther(question, source);
      const isFile = statSync(source).isFile();
      const environment: Environment = {
        image: 'host',
        env: { PYTHONPATH: packagesPath, HUD_TELEMETRY_ENABLED: 'false', PYTHONUNBUFFERED: '1' },
        // As HUD serves it: with the source's own folder as working directory.
        workdir: appPath,
        controller: {
          kind: 'hud',
          command: serving(
            isFile ? join(appPath, basename(source)) : appPath,
            options.env ?? task.env,
          ),
          port,
        },
      };
      const folder = isFile ? dirname(source) : source;
      return { environment, trees: [hudPackages(), appTree(folder)], config: config ?? {} };
    },
  };
}

function serving(path: string, env: string | null): string[] {
  const server = ['python3', '-m', 'hud.environment.server', path];
  const where = ['--host', '127.0.0.1', '--port', String(port)];
  return [...server, ...where, ...(env === null ? [] : ['--env', env])];
}

function sourceOf({ asked, beside }: RuntimeQuestion): string {
  if (asked.argument === null) {
    const [found] = beside;
    if (found !== undefined) return found;
    throw asked.refuse(
      'there is no env.py beside the taskset, and none of its name',
      `name the source, as in ${asked.words}:path/to/env.py`,
    );
  }
  const source = resolve(asked.from, asked.argument);
  if (!existsSync(source)) {
    throw asked.refuse(`there is no ${source}`, 'name a Python file, or a folder of them');
  }
  const isPython = statSync(source).isDirectory()
    ? readdirSync(source).some((name) => name.endsWith('.py'))
    : source.endsWith('.py');
  if (isPython) return source;
  throw asked.refuse(`${source} is no Python source`, 'name a .py file, or a folder of them');
}

/** Said now, and not after the environment has failed to start. */
function refuseOther({ task, options }: RuntimeQuestion, source: string): void {
  if (task.env === null || options.env !== undefined) return;
  const others = otherEnvironments(source, task.env);
  if (!others) return;
  throw new PlacementError({
    path: ['env'],
    message: `${source} defines no environment "${task.env}", but ${others.join(', ')}`,
    remedy: 'mend the name, or name another source',
  });
}

function refuseImage({ config, asked }: RuntimeQuestion, name: string): void {
  if (!isSet(config?.image)) return;
  throw new PlacementError({
    path: ['runtime_config', 'image'],
    message: `the runtime ${asked.words} serves a source in image host, and starts no other`,
    remedy: `leave it out, or choose another runtime than ${name}`,
  });
}

/** The same folder for many tasks is packed once. */
const trees = new Map<string, LocalTree>();

function appTree(folder: string): LocalTree {
  const known = trees.get(folder);
  if (known) return known;
  let packed: ReturnType<LocalTree['pack']> | null = null;
  const tree: LocalTree = {
    pack(blobs) {
      packed ??= packTree(folder, appPath, { without: leftBehind, writable: true }).then(
        async ({ to, tar }) => ({ to, ...(await blobs.put(tar)) }),
      );
      return packed;
    },
  };
  trees.set(folder, tree);
  return tree;
}
