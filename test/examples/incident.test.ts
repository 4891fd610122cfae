import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { parse } from 'yaml';
import { Task } from '../../contracts/task';
import { readScript } from '../../models/scripted/script';
import { mergeDefaults } from '../../tasks/merge';

const example = join(__dirname, '../../examples/incident');
const node = process.execPath;

interface ToolResult {
  isError?: boolean;
  content: { type: string; text?: string; data?: string; mimeType?: string }[];
}

interface RawTaskset {
  defaults: unknown;
  tasks: unknown[];
}

describe('the incident controller', () => {
  let dir: string;
  let program: string;
  let client: Client;
  let http: ChildProcess | null = null;
  let url: URL;

  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'incident-'));
    program = join(dir, 'main.mjs');
    execFileSync('esbuild', [
      join(example, 'src/main.mjs'),
      '--bundle',
      '--platform=node',
      '--format=esm',
      '--target=node22',
      '--log-level=warning',
      `--banner:js=import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);`,
      `--outfile=${program}`,
    ]);
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));

  let root: string;
  beforeEach(() => {
    root = mkdtempSync(join(dir, 'world-'));
    client = new Client({ name: 'test', version: '1' });
  });
  afterEach(async () => {
    await client.close();
    http?.kill('SIGKILL');
    http = null;
  });

  const call = async (name: string, args: object = {}) =>
    (await client.callTool({ name, arguments: { ...args } })) as ToolResult; // the tests check what is in it
  const text = (result: ToolResult) => result.content[0]?.text ?? '';
  const effects = () => readFileSync(join(root, 'ops/effects.log'), 'utf8').trim().split('\n');

  const overStdio = () =>
    client.connect(
      new StdioClientTransport({
        command: node,
        args: [program, '--stdio'],
        env: { INCIDENT_ROOT: root },
      }),
    );

  async function overHttp(): Promise<void> {
    const port = await freePort();
    url = new URL(`http://127.0.0.1:${port}/mcp`);
    http = spawn(node, [program, '--http', String(port)], {
      env: { INCIDENT_ROOT: root },
      stdio: 'inherit',
    });
    for (;;) {
      try {
        return await client.connect(new StreamableHTTPClientTransport(url));
      } catch (error) {
        if (http.exitCode !== null) throw error;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  }

  test.each([
    ['stdio', overStdio],
    ['HTTP', overHttp],
  ])('mends the shop over %s', async (_, connect) => {
    await connect();

    const before = await call('list_services');
    await call('set_config', { service: 'web', key: 'upstreamPort', value: 8080 });
    const restarted = await call('restart_service', { service: 'web' });

    expect(JSON.parse(text(before)).services.web).toBe('failing');
    expect(text(restarted)).toBe('web is up');
    expect(effects()).toHaveLength(2);
  });

  test('serves a second session on the same world', async () => {
    await overHttp();
    await call('release_order', { id: 1017 });
    const second = new Client({ name: 'second', version: '1' });
    await second.connect(new StreamableHTTPClientTransport(url));

    const result = await second.callTool({ name: 'release_order', arguments: { id: 1017 } });

    expect(result).toMatchObject({ isError: true, content: [{ text: 'order 1017 is not stuck' }] });
    await second.close();
  });

  test.each([
    ['set_config', { service: 'web', key: 'colour', value: 1 }, 'web has no setting colour'],
    ['read_log', { service: 'mail' }, 'Invalid'],
    ['query_db', { sql: 'DELETE FROM orders' }, 'readonly'],
  ])('answers a tool error for %s %j', async (name, args, message) => {
    await overStdio();

    const result = await call(name, args);

    expect(result.isError).toBe(true);
    expect(text(result)).toContain(message);
  });

  test('shows a chart as a PNG', async () => {
    await overStdio();

    const { content } = await call('cache_stats');

    expect(content[1]).toMatchObject({ type: 'image', mimeType: 'image/png' });
    const png = Buffer.from(content[1]?.data ?? '', 'base64');
    expect([png.subarray(1, 4).toString(), png.readUInt32BE(16), png.readUInt32BE(20)]).toEqual([
      'PNG',
      120,
      48,
    ]);
  });

  test('leaves its line in the effects log before a slow call ends', async () => {
    await overStdio();

    const seen: [number, number][] = [];
    await client.callTool(
      { name: 'drain_connections', arguments: { service: 'web', seconds: 0.1 } },
      undefined,
      { onprogress: ({ progress }) => seen.push([progress, effects().length]) },
    );

    expect(seen[0]).toEqual([1, 1]);
    expect(effects().map((line) => JSON.parse(line).tool)).toEqual(['drain_connections']);
  });

  test('keeps its state in files that a second process goes on from', async () => {
    await overStdio();
    await call('write_report', { text: 'as found' });

    const said = execFileSync(node, [program, '--call', 'release_order', '{"id": 1044}'], {
      env: { INCIDENT_ROOT: root },
      encoding: 'utf8',
    });

    expect(said).toBe('order 1044 is queued\n');
    expect(text(await call('query_db', { sql: 'SELECT status FROM orders WHERE id = 1044' }))).toBe(
      JSON.stringify([{ status: 'queued' }], null, 1),
    );
    expect(readFileSync(join(root, 'report.txt'), 'utf8')).toBe('as found');
    expect(effects()).toHaveLength(2);
  });
});

describe.each([
  ['taskset.yaml', 'script.yaml'],
  ['kill-taskset.yaml', 'kill-script.yaml'],
])('%s with %s', (tasksetFile, scriptFile) => {
  const taskset = parse(readFileSync(join(example, tasksetFile), 'utf8')) as RawTaskset; // each row is parsed below
  const tasks = taskset.tasks.map((row) => Task.parse(mergeDefaults(taskset.defaults, row)));
  const script = readScript(join(example, scriptFile));

  test('has a solution for each task', () => {
    expect(tasks.map((task) => (task.solution ?? []).length > 0)).toEqual(tasks.map(() => true));
  });

  test('has exactly one entry for each prompt, and no entry without a task', () => {
    const chosen = tasks.map((task) =>
      script.entries.filter((entry) => task.prompt?.includes(entry.when)).map((e) => e.when),
    );

    expect(chosen.map((entries) => entries.length)).toEqual(tasks.map(() => 1));
    expect(new Set(chosen.flat()).size).toBe(script.entries.length);
  });

  test('ends each way with a reply that calls no tool', () => {
    for (const entry of script.entries) {
      for (const { replies = [] } of [entry, ...(entry.variants ?? [])]) {
        expect(replies.map((reply) => reply.toolCalls === undefined)).toEqual(
          replies.map((_, n) => n === replies.length - 1),
        );
      }
    }
  });
});

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0));
    });
  });
}
