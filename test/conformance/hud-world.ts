import { execFileSync, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { CreateSandboxRequest, Sandbox } from '../../contracts/denv';
import { type ScriptedEndpoint, startScripted } from '../../models/scripted/server';
import { ServerProcess } from '../denv/server-process';

const ROOT = resolve(__dirname, '../..');
const HUD = resolve(ROOT, '.hud/venv/bin/hud');
/** What keeps HUD's own programs from asking for anything beyond this machine. */
export const quietHud = {
  HUD_TELEMETRY_ENABLED: 'false',
  HUD_CLI_ANALYTICS_ENABLED: '0',
  HUD_SKIP_VERSION_CHECK: '1',
};

/** A row of a HUD taskset. */
export interface HudRow {
  env: string;
  id: string;
  args: Record<string, unknown>;
}

/** What `hud eval --json` prints. */
export interface HudReport {
  run_count: number;
  mean_reward: number | null;
  error_count: number;
  runs: { slug: string; reward: number; is_error: boolean; trace_error: string | null }[];
}

/** A denv server, a scripted model, and sandboxes with the real `hud` package in them: no network but their own loopback. */
export class HudWorld {
  readonly server = new ServerProcess();
  endpoint!: ScriptedEndpoint;
  folder = '';
  private trees: { to: string; sha256: string }[] = [];
  private serial = 0;

  async start(): Promise<void> {
    this.folder = mkdtempSync(join(tmpdir(), 'hud-conformance-'));
    await this.server.start();
    this.endpoint = await startScripted({ file: resolve(ROOT, 'examples/hud/script.yaml') });
    this.trees = [
      await this.upload(resolve(ROOT, '.hud/packages'), '/opt/hud'),
      await this.upload(resolve(ROOT, 'examples/hud/envs'), '/app'),
    ];
  }

  async end(): Promise<void> {
    await this.endpoint.close();
    await this.server.end();
    rmSync(this.folder, { recursive: true, force: true });
  }

  request(env: string): CreateSandboxRequest {
    return {
      image: 'host',
      files: this.trees,
      env: { PYTHONPATH: '/opt/hud', HOME: '/home/agent', ...quietHud },
      ports: [8765],
      controller: {
        kind: 'hud',
        command: [
          'python3',
          '-m',
          'hud.environment.server',
          `/app/${env}`,
          '--host',
          '127.0.0.1',
          '--port',
          '8765',
        ],
      },
    };
  }

  /** Runs work on an environment of its own, which is gone afterwards. */
  async within<T>(env: string, work: (sandbox: Sandbox) => Promise<T>): Promise<T> {
    const { client } = this.server;
    const key = `conformance/${++this.serial}`;
    const sandbox = await client.createSandbox(this.request(env), { key });
    try {
      return await work(sandbox);
    } finally {
      await client.deleteSandbox(sandbox.id);
    }
  }

  /** HUD's own driver, with its OpenAI-compatible agent on the scripted model. */
  async hudEval(rows: HudRow[], address: string): Promise<HudReport> {
    const file = join(this.folder, `rows-${++this.serial}.json`);
    writeFileSync(file, JSON.stringify(rows));
    const stdout = await run(HUD, [
      'eval',
      file,
      'openai_compatible',
      '--model',
      'scripted',
      '-c',
      `base_url=${this.endpoint.address}/v1`,
      '-c',
      'api_key=none',
      '--runtime',
      `tcp://${address}`,
      '--all',
      '--yes',
      '--json',
    ]);
    return JSON.parse(stdout) as HudReport;
  }

  private async upload(from: string, to: string): Promise<{ to: string; sha256: string }> {
    const tar = join(this.folder, `${++this.serial}.tar`);
    execFileSync('tar', [
      '-cf',
      tar,
      '--owner=0',
      '--group=0',
      '--exclude=__pycache__/*.pyc.*',
      '-C',
      from,
      '.',
    ]);
    const hash = createHash('sha256');
    await pipeline(createReadStream(tar), hash);
    const sha256 = hash.digest('hex');
    await this.server.client.uploadTree(sha256, createReadStream(tar));
    rmSync(tar);
    return { to, sha256 };
  }
}

/** Standard output of a program; its failure has what it wrote to standard error. */
export function run(program: string, args: string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  return new Promise((done, fail) => {
    const child = spawn(program, args, {
      env: { ...process.env, ...quietHud, HUD_API_KEY: '', ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (data: Buffer) => (stdout += data.toString()));
    child.stderr.on('data', (data: Buffer) => (stderr += data.toString()));
    child.on('error', fail).on('close', (code) => {
      if (code === 0) done(stdout);
      else fail(new Error(`${program} ended with ${code}:\n${stderr}\n${stdout}`));
    });
  });
}
