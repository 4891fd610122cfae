import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Sandbox } from '../../contracts/denv';
import { attach } from './attach-client';
import { ServerProcess, until } from './server-process';

/** What was written before a fork is in every child, whatever is being written while it forks. */

const server = new ServerProcess();
let serial = 0;
const newKey = () => ({ key: `forks/${(serial += 1)}` });

const create = () => server.client.createSandbox({ image: 'host', leaseS: 600 }, newKey());

async function run(id: string, ...argv: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await server.client.exec(
    id,
    { argv, timeoutS: 120 },
    newKey(),
  );
  if (exitCode !== 0) throw new Error(`${argv.join(' ')} ended ${exitCode}: ${stdout}${stderr}`);
  return stdout;
}

const sh = (id: string, script: string) => run(id, 'sh', '-c', script);

async function forkOf(id: string): Promise<Sandbox> {
  const [child] = (await server.client.fork(id, {}, newKey())).children;
  if (!child || 'error' in child) throw new Error(child?.error.message ?? 'no child');
  return child.sandbox;
}

/** Runs a program that prints a number for each row that it has committed. */
async function startWriter(sandboxId: string, argv: string[]) {
  const on = attach(server.address, sandboxId, { argv });
  let text = '';
  on.ws.on('message', (data: Buffer, isBinary) => {
    if (isBinary) text = (text + data.subarray(1).toString()).slice(-1000);
  });
  /** The last number of which all has come. */
  const committed = () => Number(text.split('\n').at(-2) ?? 0);
  await until('it writes', async () => committed() > 0);
  return { committed, text: () => text, end: () => on.ws.terminate() };
}

beforeAll(() => server.start(), 60_000);
afterAll(() => server.end(), 60_000);
jest.setTimeout(180_000);

const sqliteWriter = `
import sqlite3
db = sqlite3.connect('/workspace/data.db', isolation_level=None)
db.execute('pragma journal_mode=wal')
db.execute('pragma synchronous=normal')
db.execute('create table rows (n integer primary key, text text)')
n = 0
while True:
    n += 1
    db.execute('insert into rows values (?, ?)', (n, 'x' * (n % 3000)))
    print(n, flush=True)
`;

const sqliteReader = `
import sqlite3
db = sqlite3.connect('/workspace/data.db')
count, last = db.execute('select count(*), max(n) from rows').fetchone()
print(db.execute('pragma integrity_check').fetchone()[0], count, last)
db.execute('insert into rows values (-1, ?)', ('of the child',))
db.commit()
`;

test('a SQLite database in WAL mode that is written to: each of 20 children opens it and holds every committed row', async () => {
  const { id } = await create();
  const writer = await startWriter(id, ['python3', '-c', sqliteWriter]);
  const seen: number[] = [];

  for (let n = 0; n < 20; n += 1) {
    const before = writer.committed();
    const child = await forkOf(id);
    const [health, count, last] = (await run(child.id, 'python3', '-c', sqliteReader)).split(' ');

    expect(health).toBe('ok');
    expect(Number(count)).toBe(Number(last));
    expect(Number(last)).toBeGreaterThanOrEqual(before);
    seen.push(Number(last));
    await server.client.deleteSandbox(child.id);
  }

  expect(new Set(seen).size).toBe(20);
  expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  writer.end();
  await server.client.deleteSandbox(id);
});

const postgresDir = '/usr/lib/postgresql';
const postgresBin = (existsSync(postgresDir) ? readdirSync(postgresDir) : [])
  .map((version) => join(postgresDir, version, 'bin'))
  .find((bin) => existsSync(join(bin, 'postgres')) && existsSync(join(bin, 'initdb')));
const postgresTest = postgresBin === undefined ? test.skip : test;
const why = postgresBin === undefined ? ` (not run: no postgres below ${postgresDir})` : '';

postgresTest(
  `a Postgres server that is written to: each of 5 children starts one on the data and holds every committed row${why}`,
  async () => {
    const { id } = await create();
    const startIt = `${postgresBin}/pg_ctl -D pg -w -l log -o "-k /tmp -c listen_addresses=''" start >&2`;
    await sh(
      id,
      `${postgresBin}/initdb -D pg -U agent -A trust --locale=C.UTF-8 >&2 && ${startIt}`,
    );
    await sh(id, `${postgresBin}/psql -h /tmp -U agent -qc "create table rows (n int)" postgres`);
    const inserts = `seq 1 10000000 | sed "s/.*/insert into rows values (&) returning n;/"`;
    const writer = await startWriter(id, [
      'sh',
      '-c',
      `${inserts} | stdbuf -oL ${postgresBin}/psql -h /tmp -U agent -qAt postgres`,
    ]);

    for (let n = 0; n < 5; n += 1) {
      const before = writer.committed();
      const child = await forkOf(id);
      // As after any power cut: the lock of a server that no longer runs.
      await sh(child.id, `rm -f pg/postmaster.pid /tmp/.s.PGSQL* && ${startIt}`);
      const query = 'select count(*), max(n) from rows';
      const found = await sh(
        child.id,
        `${postgresBin}/psql -h /tmp -U agent -qAtF " " -c "${query}" postgres`,
      );
      const [count, last] = found.split(' ');

      expect(Number(count)).toBe(Number(last));
      expect(Number(last)).toBeGreaterThanOrEqual(before);
      expect(before).toBeGreaterThan(0);
      await server.client.deleteSandbox(child.id);
    }

    writer.end();
    await server.client.deleteSandbox(id);
  },
);

test('a fork of a fork, 100 deep, has all of them behind it, and nothing of it has grown', async () => {
  const measure = async (sandbox: Sandbox) => ({
    mounts: await sh(sandbox.id, 'wc -l < /proc/self/mountinfo'),
    config: statSync(join(server.dataDir, 'run/sandboxes', sandbox.id, 'config.json')).size,
    row: JSON.stringify(await server.client.getSandbox(sandbox.id)).length,
    version: Object.keys(await server.client.getVersion(sandbox.version)),
  });
  let sandbox = await create();
  const sizes = [];

  for (let depth = 1; depth <= 100; depth += 1) {
    await sh(sandbox.id, `echo ${depth} >> trail`);
    const child = await forkOf(sandbox.id);
    await server.client.deleteSandbox(sandbox.id);
    sandbox = child;
    if (depth === 1 || depth === 100) sizes.push(await measure(sandbox));
  }

  const trail = await sh(sandbox.id, 'cat trail');
  expect(trail.trim().split('\n')).toEqual(Array.from({ length: 100 }, (_, n) => `${n + 1}`));
  expect(sizes[1]).toEqual(sizes[0]);
  await server.client.deleteSandbox(sandbox.id);
});

test('a snapshot of what has changed holds over kill -9 of the server and in forks, for calls too', async () => {
  const sandbox = await create();
  const call = (id: string, command: string) =>
    server.client.call(
      id,
      {
        method: 'tools/call',
        params: { name: 'bash', arguments: { command } },
        snapshot: 'changed',
      },
      newKey(),
    );

  const atStart = await call(sandbox.id, 'echo one > data');
  const first = await call(sandbox.id, 'cat data');
  await server.killAndStart();
  const second = await call(sandbox.id, 'cat data');
  const [child] = (await server.client.forkVersion(first.version ?? '', {}, newKey())).children;
  if (!child || 'error' in child) throw new Error('no child');
  const inChild = await call(child.sandbox.id, 'echo two > data');
  const later = await call(child.sandbox.id, 'cat data');

  expect(atStart).toMatchObject({ version: sandbox.version, unchanged: true });
  expect(first).toMatchObject({ unchanged: false });
  expect(second).toMatchObject({ version: first.version, unchanged: true });
  expect(inChild).toMatchObject({ version: first.version, unchanged: true });
  expect(later).toMatchObject({ unchanged: false });
  const read = async (version = '') =>
    (await server.client.readVersionFile(version, '/workspace/data')).toString();
  expect([await read(first.version), await read(later.version)]).toEqual(['one\n', 'two\n']);
  const diff = await server.client.diffVersions(first.version ?? '', later.version ?? '');
  expect(diff.files).toEqual([{ path: '/workspace/data', change: 'changed', bytes: 4 }]);
  for (const { id } of [sandbox, child.sandbox]) await server.client.deleteSandbox(id);
});

test('a command that is killed with its server keeps the snapshot that it began with', async () => {
  const { id } = await create();
  await sh(id, 'echo before > data');
  const key = newKey();
  const request = {
    argv: ['sh', '-c', 'echo during > data; until [ -e go ]; do sleep 0.05; done; cat data'],
    snapshot: 'changed' as const,
  };
  const lost = server.client.exec(id, request, key).catch(() => undefined);
  await until('it has begun', async () => (await sh(id, 'cat data')).startsWith('during'));

  await server.killAndStart();
  const again = server.client.exec(id, request, key);
  await sh(id, 'touch go');
  const reply = await again;

  await lost;
  expect(reply).toMatchObject({ exitCode: 0, stdout: 'during\n', unchanged: false });
  const held = await server.client.readVersionFile(reply.version ?? '', '/workspace/data');
  expect(held.toString()).toBe('before\n');
  await server.client.deleteSandbox(id);
});
