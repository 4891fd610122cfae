import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BatchReport } from '../../contracts/batch';
import type { DemoReport } from '../../client/demo/demo';
import type { KillReport } from '../../client/demo/kill-demo';
import { leftBehind } from './left-behind';

const root = join(__dirname, '../..');

interface Ended {
  code: number | null;
  stdout: string;
  stderr: string;
}

describe('npm run demo', () => {
  let home: string;

  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'rollouts-demo-'));
  });
  afterEach(async () => {
    await run('bin/rollouts', 'down');
    rmSync(home, { recursive: true, force: true });
  });

  /** As a person would, with a home of its own. */
  function run(program: string, ...args: string[]): Promise<Ended> {
    const env: NodeJS.ProcessEnv = { ...process.env, ROLLOUTS_HOME: home };
    for (const name of ['TEMPORAL_ADDRESS', 'DENV_SERVER', 'DENV_API_KEY']) delete env[name];
    const child = spawn(join(root, program), args, { cwd: root, env, stdio: 'pipe' });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (data: Buffer) => (stdout += data.toString()));
    child.stderr.on('data', (data: Buffer) => (stderr += data.toString()));
    return new Promise((resolve, reject) => {
      child.once('error', reject);
      child.once('close', (code) => resolve({ code, stdout, stderr }));
    });
  }

  const lastLine = (text: string): string => text.trimEnd().split('\n').at(-1) ?? '';

  test('runs every task twice, explores one, and leaves nothing running', async () => {
    const { code, stdout, stderr } = await run('scripts/demo', '--json');

    if (code !== 0) throw new Error(`the demo exited ${code}:\n${stdout}\n${stderr}`);
    const report = JSON.parse(lastLine(stdout)) as DemoReport; // its declared part is parsed below
    expect(BatchReport.parse(report)).toMatchObject({ declared: 14, scored: 12, unscored: 2 });
    expect(report.rollouts.map(({ task, index, reward }) => [task, index, reward])).toEqual([
      ...each('restart-web', 1),
      ...each('stuck-orders', 1),
      ...each('full-disk', 1),
      ...each('guess-carrier', 0),
      ...each('tune-cache', 0.75),
      ...each('linked-report', 0),
      ...each('broken-verifier', null),
    ]);
    expect(report.meanReward).toBe(7.5 / 12);
    const of = (task: string) => report.rollouts.filter((rollout) => rollout.task === task);
    expect(of('tune-cache')[0]?.rewards).toEqual({ hitRate: 0.803, thrift: 1, report: 0 });
    expect(of('broken-verifier')[0]).toMatchObject({
      outcome: 'unscored',
      stopReason: 'done',
      failure: { class: 'verifier' },
    });
    expect(report.explore.value).toBe(0.5);
    expect(report.explore.rollouts.map(({ reward }) => reward)).toEqual([0.5, 0, 1]);
    expect(report.sandboxesLeft).toBe(0);
    expect(leftBehind(home)).toEqual([]);

    const refused = await run('bin/rollouts', 'show', of('linked-report')[0]?.rolloutId ?? '');
    expect(refused.stdout).toMatch(/refused \/workspace\/report\.txt.*symbolic link/);
  }, 240_000);

  test('repeats nothing when the worker and the denv server are killed', async () => {
    const { code, stdout, stderr } = await run('scripts/demo', '--kill-worker', '--json');

    if (code !== 0) throw new Error(`the demo exited ${code}:\n${stdout}\n${stderr}`);
    const report = JSON.parse(lastLine(stdout)) as KillReport; // its declared part is parsed below
    expect(BatchReport.parse(report)).toMatchObject({ declared: 4, scored: 4, meanReward: 1 });
    expect(report).toMatchObject({
      modelCallsRepeated: 0,
      modelCallsReissued: 1,
      toolEffectsRepeated: 0,
      sandboxesLeft: 0,
    });
    expect(report.kills.map(({ killed, during }) => [killed, during])).toEqual([
      ['worker', 'a tool call over HTTP'],
      ['denv', 'a tool call over stdio'],
      ['denv', 'an exec'],
      ['worker', 'a model call'],
    ]);
    expect(report.rollouts.map(({ toolCalls, attempts }) => [toolCalls, attempts])).toEqual(
      report.rollouts.map(() => [3, 1]),
    );
    expect(leftBehind(home)).toEqual([]);
  }, 240_000);

  test('refuses an option that it does not know', async () => {
    const { code, stderr } = await run('scripts/demo', '--quick');

    expect(code).toBe(2);
    expect(stderr).toContain("Unknown option '--quick'");
  }, 60_000);
});

const each = (task: string, reward: number | null) => [
  [task, 0, reward],
  [task, 1, reward],
];
