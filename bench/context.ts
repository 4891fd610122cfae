import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pack } from 'tar-stream';
import type { Sandbox, CreateSandboxRequest, FileTree } from '../contracts/denv';
import type { Rollouts } from '../client/api/connect';
import type { Settings } from '../client/settings';
import type { StackState } from '../client/stack/state';
import type { DenvClient } from '../denv/client';
import type { Bare } from './bare';
import type { Row } from './row';

/** What a measurement of sandboxes works with: our server, and the bare tools beside it on the same disk. */
export interface SandboxContext {
  denv: DenvClient;
  bare: Bare;
  /** A directory for scratch files, removed after the run. */
  dir: string;
  /** Tiny sizes and few rounds: shows that it runs, not what it measures. */
  small: boolean;
  say: (line: string) => void;
}

export interface SandboxBench {
  name: string;
  run(context: SandboxContext): Promise<Row[]>;
}

/** What a measurement of whole rollouts works with: a running stack of its own. */
export interface StackContext {
  rollouts: Rollouts;
  settings: Settings;
  env: NodeJS.ProcessEnv;
  /** As it is now: pids change when a service is started again. */
  stack: () => StackState;
  say: (line: string) => void;
}

export interface StackBench {
  name: string;
  run(context: StackContext): Promise<Row[]>;
}

/** The root of the checkout: compiled files lie one level below it. */
export const root = join(__dirname, '../..');
export const controllerProgram = join(root, 'examples/incident/build/main.mjs');

export const newKey = (what: string): string => `bench/${what}/${randomUUID()}`;

/** The example's controller as a file tree for a sandbox: what the first rollout of a task sends, and what all others do. */
export async function controllerFiles(): Promise<{ whole: FileTree; byDigest: FileTree }> {
  const tar = pack();
  tar.entry({ name: 'main.mjs', mode: 0o644 }, readFileSync(controllerProgram));
  tar.finalize();
  const chunks: Buffer[] = [];
  for await (const chunk of tar) chunks.push(chunk as Buffer); // a tar stream yields buffers
  const archive = Buffer.concat(chunks);
  const to = '/app';
  return {
    whole: { to, tarBase64: archive.toString('base64') },
    byDigest: { to, sha256: createHash('sha256').update(archive).digest('hex') },
  };
}

/** A sandbox for the length of `use`. */
export async function withSandbox<T>(
  denv: DenvClient,
  request: CreateSandboxRequest,
  use: (sandbox: Sandbox) => Promise<T>,
): Promise<T> {
  const sandbox = await denv.createSandbox(request, { key: newKey('create') });
  try {
    return await use(sandbox);
  } finally {
    await denv.deleteSandbox(sandbox.id);
  }
}

export const shellSandbox: CreateSandboxRequest = { image: 'host', leaseS: 3600 };
