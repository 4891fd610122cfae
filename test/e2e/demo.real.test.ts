import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BatchReport } from '../../contracts/batch';
import type { DemoReport } from '../../demo/demo';
import type { KillReport } from '../../demo/kill-demo';
import { leftBehind } from './left-behind';
import { lastLine, run, start } from './person';

describe('npm run demo', () => {
  let home: string;

  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'rollouts-demo-'));
  });
  afterEach(async () => {
    await run(home, 'bin/rollouts', 'down');
    rmSync(home, { recursive: true, force: true });
  });

  test('runs every task twice, explores one, and leaves nothing running', async () => {
    const { code, stdout, stderr } = await run(home, 'scripts/demo', '--json');

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

    const refused = await run(
      home,
      'bin/rollouts',
      'show',
      of('linked-report')[0]?.rolloutId ?? '',
    );
    expect(refused.stdout).toMatch(/refused \/workspace\/report\.txt.*symbolic link/);
  }, 240_000);

  test('repeats nothing when the worker and the denv server are killed', async () => {
    const { code, stdout, stderr } = await run(home, 'scripts/demo', '--kill-worker', '--json');

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

  test('cancels what it runs and leaves nothing when it is stopped', async () => {
    const demo = start(home, 'scripts/demo');
    await demo.says('[1/14]');
    demo.child.kill('SIGINT');
    const { code, stderr } = await demo.ended;

    expect(code).toBe(1);
    expect(stderr).toContain('stopped by SIGINT');
    expect(leftBehind(home)).toEqual([]);
    // What had not ended was cancelled, or never began: no row may pass for a whole batch.
    const list = await run(home, 'bin/rollouts', 'list', '--json');
    const rows = JSON.parse(list.stdout) as { outcome: string | null; stopReason: string | null }[];
    const stopped = rows.filter((row) => row.outcome === null || row.stopReason === 'cancelled');
    expect(rows).toHaveLength(14);
    expect(stopped).not.toHaveLength(0);
  }, 120_000);
});

const each = (task: string, reward: number | null) => [
  [task, 0, reward],
  [task, 1, reward],
];
