import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import { activity } from './activity';
import { toUserError, UsageError, UserError } from '../client/errors';
import { openBare } from './bare';
import { checkpoint } from './checkpoint';
import { commit } from './commit';
import type { SandboxBench, StackBench } from './context';
import { cpu } from './cpu';
import { create } from './create';
import { startDenvServer } from './denv-server';
import { exec } from './exec';
import { forkDepth } from './fork-depth';
import { forkFlat } from './fork-flat';
import { forkMany } from './fork-many';
import { history } from './history';
import { liveFork } from './live-fork';
import { describeMachine, thisMachine } from './machine';
import { tableOf } from './report';
import { resume } from './resume';
import type { Row } from './row';
import { startBenchStack } from './stack';
import { verify } from './verify';

const sandboxBenches: SandboxBench[] = [
  forkFlat,
  forkMany,
  forkDepth,
  commit,
  liveFork,
  create,
  exec,
  checkpoint,
  verify,
];
const stackBenches: StackBench[] = [activity, cpu, resume, history];

const { values } = parseArgs({
  options: {
    json: { type: 'boolean' },
    only: { type: 'string', multiple: true },
    // Tiny sizes and few rounds, for the benches of sandboxes that have sizes.
    small: { type: 'boolean', default: false },
  },
});
const say = (line: string): void => console.error(line);

// Whatever is being measured is let go, and everything is cleaned up.
const interrupted = new Promise<never>((_, reject) => {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => reject(new UserError(`stopped by ${signal}`)));
  }
});
interrupted.catch(() => undefined);

main().then(
  (ok) => (process.exitCode = ok ? 0 : 3),
  (error: unknown) => {
    console.error(toUserError(error)?.message ?? error);
    // What was let go may still hold connections.
    process.exit(toUserError(error)?.exitCode ?? 1);
  },
);

async function main(): Promise<boolean> {
  const known = [...sandboxBenches, ...stackBenches].map(({ name }) => name);
  const unknown = values.only?.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new UsageError(`--only ${unknown}: there is ${known.join(', ')}`);
  }
  const machine = thisMachine();
  say(describeMachine(machine));
  const dir = mkdtempSync(join(tmpdir(), 'rollouts-bench-'));
  try {
    const rows = [...(await sandboxRows(dir)), ...(await stackRows(dir))];
    console.log(
      values.json
        ? JSON.stringify({ machine, rows })
        : `${describeMachine(machine)}\n\n${tableOf(rows)}`,
    );
    return rows.every((row) => row.ok);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function sandboxRows(dir: string): Promise<Row[]> {
  const wanted = sandboxBenches.filter((bench) => isWanted(bench.name));
  if (wanted.length === 0) return [];
  const server = await startDenvServer(join(dir, 'denv'));
  const bare = await openBare(join(dir, 'bare'), 8);
  const rows: Row[] = [];
  try {
    for (const bench of wanted) {
      say(`measuring ${bench.name}`);
      const context = { denv: server.client, bare, dir, say, small: values.small };
      rows.push(...(await Promise.race([bench.run(context), interrupted])));
    }
  } finally {
    await bare.close();
    await server.close();
  }
  return rows;
}

async function stackRows(dir: string): Promise<Row[]> {
  const wanted = stackBenches.filter((bench) => isWanted(bench.name));
  if (wanted.length === 0) return [];
  Runtime.install({ logger: new DefaultLogger('ERROR') });
  const stack = await startBenchStack(join(dir, 'home'), say);
  const rows: Row[] = [];
  try {
    for (const bench of wanted) {
      say(`measuring ${bench.name}`);
      rows.push(...(await Promise.race([bench.run(stack.context), interrupted])));
    }
  } finally {
    await stack.close();
  }
  return rows;
}

function isWanted(name: string): boolean {
  return values.only === undefined || values.only.includes(name);
}
