import type { CreateSandboxRequest } from '../contracts/denv';
import type { DenvClient } from '../denv/client';
import type { Bare } from './bare';
import { controllerFiles, controllerProgram, newKey, type SandboxBench } from './context';
import { ratioRow, timed } from './row';

const oneByOne = 8;
const rounds = 4;
const atOnce = 8;
const initialize = JSON.stringify({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'bench', version: '1' },
  },
});

/** A sandbox whose controller answers, against `runc run` of the same controller in a tree that is there already. */
export const create: SandboxBench = {
  name: 'create',
  async run({ denv, bare }) {
    const files = await controllerFiles();
    const request: CreateSandboxRequest = {
      image: 'host',
      files: [files.byDigest],
      controller: {
        kind: 'mcp-http',
        command: ['node', '/app/main.mjs', '--http', '8765'],
        port: 8765,
      },
      leaseS: 3600,
    };
    const base = await bare.base('create-base', { 'app/main.mjs': controllerProgram });
    const port = portsFrom(21_000 + Math.floor(Math.random() * 10_000));
    await removed(denv, [await created(denv, { ...request, files: [files.whole] })]); // prepares the image and its files

    const one = { ours: [] as number[], bare: [] as number[] };
    for (let n = 0; n < oneByOne; n += 1) {
      const { ms, value } = await timed(() => created(denv, request));
      one.ours.push(ms);
      await removed(denv, [value]);
      one.bare.push(await bareRound(bare, base, 1, port));
    }
    const many = { ours: [] as number[], bare: [] as number[] };
    for (let n = 0; n < rounds; n += 1) {
      const { ms, value } = await timed(() =>
        Promise.all(Array.from({ length: atOnce }, () => created(denv, request))),
      );
      many.ours.push(ms);
      await removed(denv, value);
      many.bare.push(await bareRound(bare, base, atOnce, port));
    }
    return [
      ratioRow(
        { name: 'create', what: 'a sandbox with a ready controller', unit: 'ms' },
        one.ours,
        { what: 'runc run of that controller', values: one.bare },
        1.3,
      ),
      ratioRow(
        { name: 'create-8', what: `${atOnce} at once, until the last is ready`, unit: 'ms' },
        many.ours,
        { what: `${atOnce} x runc run at once`, values: many.bare },
        1.6,
      ),
    ];
  },
};

async function created(denv: DenvClient, request: CreateSandboxRequest): Promise<string> {
  return (await denv.createSandbox(request, { key: newKey('create') })).id;
}

async function removed(denv: DenvClient, sandboxIds: string[]): Promise<void> {
  await Promise.all(sandboxIds.map((id) => denv.deleteSandbox(id)));
}

/** Starts `count` controllers at once over trees made before, and measures until each has answered. */
async function bareRound(
  bare: Bare,
  base: string,
  count: number,
  nextPort: () => number,
): Promise<number> {
  const ports = Array.from({ length: count }, nextPort);
  const trees = await Promise.all(ports.map((port) => bare.snapshot(base, `create-${port}`)));
  const { ms } = await timed(() =>
    Promise.all(
      ports.map(async (port, n) => {
        const argv = ['node', '/app/main.mjs', '--http', String(port)];
        await bare.run(`create-${port}`, trees[n] ?? base, argv, { hostNetwork: true });
        await answers(port);
      }),
    ),
  );
  for (const port of ports) await bare.remove(`create-${port}`);
  return ms;
}

async function answers(port: number): Promise<void> {
  for (;;) {
    try {
      const response = await fetch(`http://127.0.0.1:${port}/mcp`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
        },
        body: initialize,
      });
      await response.text();
      if (response.ok) return;
    } catch {
      // not listening yet
    }
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
}

function portsFrom(first: number): () => number {
  let next = first;
  return () => next++;
}
