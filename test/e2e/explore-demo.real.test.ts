import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ExploreReport } from '../../demo/explore-demo';
import { leftBehind } from './left-behind';
import { lastLine, run } from './person';

describe('npm run demo:explore', () => {
  let home: string;

  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), 'rollouts-demo-'));
  });
  afterEach(async () => {
    await run(home, 'bin/rollouts', 'down');
    rmSync(home, { recursive: true, force: true });
  });

  test('finds the step that went wrong, and comes out of the maze at half the price or less', async () => {
    const { code, stdout, stderr } = await run(home, 'scripts/demo-explore', '--json');

    if (code !== 0) throw new Error(`the demo exited ${code}:\n${stdout}\n${stderr}`);
    const report = JSON.parse(lastLine(stdout)) as ExploreReport; // what the demo prints last
    const { root, value, tree, independent } = report;
    expect(root).toMatchObject({ reward: 0, modelCalls: 5 });
    expect(value.steps.map(({ step, did }) => [step, did])).toEqual([
      [1, 'go corridor'],
      [2, 'go stair'],
      [3, 'go arch'],
      [4, 'go steps'],
    ]);
    expect(value.wrong.step).toBe(2);
    expect(value.steps.map(({ visits }) => visits)).toEqual([8, 8, 8, 8]);
    expect(tree).toMatchObject({ best: 1, ended: 'stop_reward' });
    expect(independent.best).toBe(1);
    expect(root.modelCalls + tree.modelCalls).toBeLessThanOrEqual(
      (root.modelCalls + independent.modelCalls) / 2,
    );
    expect(report.sandboxesLeft).toBe(0);
    expect(stdout).toContain('step 2 (go stair) went wrong');
    expect(leftBehind(home)).toEqual([]);
  }, 600_000);
});
