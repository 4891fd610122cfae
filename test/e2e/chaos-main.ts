import { parseArgs } from 'node:util';
import { tableLines } from '../../client/reports/table';
import { Chaos } from './chaos';
import type { ChaosRow } from './chaos';
import { CrashStack } from './crash-stack';
import { leftBehind } from './left-behind';

const usage = `npm run chaos [-- OPTIONS]

  --seeds N  how many, default 20
  --from N   the first one, default 1
  --json     one JSON object as the last line

kill -9 of the worker and of the denv server at random moments of a tree search. Exits 0 when every seed came out as it should,
1 otherwise, 2 for bad usage.`;

main().then(
  (status) => (process.exitCode = status),
  (error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  },
);

async function main(): Promise<number> {
  const asked = askedFor(process.argv.slice(2));
  if (asked === null) {
    console.error(usage);
    return 2;
  }
  const stack = new CrashStack();
  const rows: ChaosRow[] = [];
  let ok = false;
  try {
    await stack.up();
    const chaos = await Chaos.on(stack);
    try {
      for (let seed = asked.from; seed < asked.from + asked.seeds; seed += 1) {
        const row = await chaos.run(seed);
        rows.push(row);
        console.error(`seed ${seed}: ${row.wrong.length === 0 ? 'ok' : row.wrong.join('; ')}`);
      }
    } finally {
      await chaos.close();
    }
    await stack.close();
    const left = leftBehind(stack.home);
    ok = left.length === 0 && rows.every(({ wrong }) => wrong.length === 0);
    for (const line of ['', ...chaosTable(rows), '', ...left.map((what) => `left: ${what}`)]) {
      console.log(line);
    }
    if (asked.json) console.log(JSON.stringify({ rows, left }));
    return ok ? 0 : 1;
  } finally {
    await stack.close();
    if (ok) stack.remove();
    else console.error(`its files are left in ${stack.home}`);
  }
}

function askedFor(args: string[]): { seeds: number; from: number; json: boolean } | null {
  try {
    const { values } = parseArgs({
      args,
      options: {
        seeds: { type: 'string', default: '20' },
        from: { type: 'string', default: '1' },
        json: { type: 'boolean', default: false },
      },
    });
    const [seeds, from] = [Number(values.seeds), Number(values.from)];
    const whole = [seeds, from].every((n) => Number.isInteger(n) && n > 0 && n < 1_000_000);
    return whole ? { seeds, from, json: values.json } : null;
  } catch {
    return null;
  }
}

function chaosTable(rows: ChaosRow[]): string[] {
  return tableLines(
    ['seed', 'kill -9 of', 'leaves', 'rewards', 'reissued', 'restored', 'seconds', ''],
    rows.map(({ seed, kills, rewards, modelCallsReissued, restored, seconds, wrong }) => [
      String(seed),
      kills.join(', '),
      String(rewards.length),
      rewards.map((reward) => reward ?? '-').join(' '),
      String(modelCallsReissued),
      String(restored),
      seconds.toFixed(0),
      wrong.length === 0 ? 'ok' : `${wrong.length} WRONG: ${wrong[0]}`,
    ]),
  );
}
