import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { CallReply } from '../../../../contracts/denv';
import { ServerProcess } from '../../server-process';

const packages = resolve('.hud/packages');
const there = existsSync(packages);
const titled = (name: string) =>
  there ? name : `${name} (skipped: no .hud/packages; see scripts/setup-hud)`;

/** The examples' environments as `rollouts` serves them: as the agent's user, in a sandbox that has loopback alone. */
(there ? describe : describe.skip)(titled('a HUD environment in a sandbox'), () => {
  const server = new ServerProcess();
  let folder = '';
  const digests = new Map<string, string>();
  let keys = 0;
  const key = (name: string) => `${name}/${++keys}`;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'hud-trees-'));
    await server.start();
    await upload('/opt/hud', packages);
    await upload('/app', resolve('examples/hud/envs'));
  }, 300_000);

  afterAll(async () => {
    await server.end();
    rmSync(folder, { recursive: true, force: true });
  }, 120_000);

  async function upload(to: string, from: string): Promise<void> {
    const file = join(folder, `${digests.size}.tar`);
    execFileSync('tar', ['-cf', file, '-C', from, '.']);
    const hash = createHash('sha256');
    for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer); // no encoding
    const sha256 = hash.digest('hex');
    await server.client.uploadTree(sha256, createReadStream(file));
    digests.set(to, sha256);
  }

  async function serve(file: string) {
    const command = ['python3', '-m', 'hud.environment.server', `/app/${file}`];
    return server.client.createSandbox(
      {
        image: 'host',
        files: [...digests].map(([to, sha256]) => ({ to, sha256 })),
        env: { PYTHONPATH: '/opt/hud', HUD_TELEMETRY_ENABLED: 'false' },
        egress: 'deny',
        controller: { kind: 'hud', command: [...command, '--port', '8765'], timeoutS: 120 },
      },
      { key: key('create') },
    );
  }

  const call = (
    id: string,
    method: 'hud/start' | 'hud/grade' | 'tools/list' | 'tools/call',
    params = {},
  ) => server.client.call(id, { method, params, timeoutS: 60 }, { key: key(method) });
  const use = (id: string, name: string, args = {}) =>
    call(id, 'tools/call', { name, arguments: args });
  const scoreOf = (reply: CallReply) =>
    (reply.result?.['grade'] as { score?: number } | undefined)?.score;

  it('answers for its task', async () => {
    const { id, controller } = await serve('text_env.py');

    const started = await call(id, 'hud/start', {
      id: 'big_prompt',
      args: { mib: 10 },
      env: 'text',
    });
    const graded = await call(id, 'hud/grade', { answer: '5' });

    expect(controller.hud).toEqual({ name: 'text', version: '1.0.0', capabilities: [] });
    expect(String(started.result?.['prompt']).length).toBeGreaterThan(10 * 1024 * 1024);
    expect(scoreOf(graded)).toBe(1);
    await server.client.deleteSandbox(id);
  }, 180_000);

  it('lends its tools through tunnels, over HTTP and over SSE', async () => {
    const { id } = await serve('two_mcp_env.py');

    await call(id, 'hud/start', { id: 'count_and_note', args: { target: 2 } });
    await use(id, 'counter__bump', { by: 2 });
    await use(id, 'notes__write', { text: '2' });

    expect(scoreOf(await call(id, 'hud/grade', { answer: 'done' }))).toBe(1);
    await server.client.deleteSandbox(id);
  }, 180_000);

  it('lends the shell of its workspace, which is not isolated from it', async () => {
    const { id, controller } = await serve('workspace_env.py');

    await call(id, 'hud/start', { id: 'write_answer', args: { value: 7 } });
    const who = await use(id, 'bash', { command: 'id -u; pwd; echo $HOME' });
    await use(id, 'write_file', { path: 'answer.txt', content: '7' });
    const graded = await call(id, 'hud/grade', { answer: 'done' });

    expect(controller.hud?.capabilities).toMatchObject([
      { name: 'shell', use: 'tools', isolation: 'none' },
      { name: 'filetracking', use: 'address' },
    ]);
    expect(who.result).toMatchObject({
      content: [{ text: '1000\n/workspace\n/home/agent\n\n[exit code 0]' }],
    });
    expect(scoreOf(graded)).toBe(1);
    await server.client.deleteSandbox(id);
  }, 180_000);

  it('goes on after the server was killed between a start and its grade', async () => {
    const { id } = await serve('mcp_env.py');
    await call(id, 'hud/start', { id: 'count_to', args: { target: 3 } });
    await use(id, 'bump', { by: 1 });

    await server.killAndStart();

    await use(id, 'bump', { by: 2 });
    expect(scoreOf(await call(id, 'hud/grade', { answer: 'done' }))).toBe(1);
    await server.client.deleteSandbox(id);
  }, 180_000);
});
