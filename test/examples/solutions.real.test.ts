import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { BatchReport } from '../../contracts/batch';
import { lastLine, run } from '../e2e/person';

describe('the example tasks', () => {
  let home: string;

  beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), 'rollouts-example-'));
    const ports = ['--temporal-port', '0', '--ui-port', '0', '--denv-port', '0'];
    const up = await run(home, 'bin/rollouts', 'up', '--detach', ...ports);
    if (up.code !== 0) throw new Error(up.stderr);
  }, 120_000);
  afterAll(async () => {
    await run(home, 'bin/rollouts', 'down');
    rmSync(home, { recursive: true, force: true });
  }, 60_000);

  async function rewards(taskset: string, agent: string) {
    const file = `examples/${taskset}`;
    const { code, stdout } = await run(
      home,
      'bin/rollouts',
      'run',
      file,
      '--agent',
      agent,
      '--json',
    );
    const report = BatchReport.parse(JSON.parse(lastLine(stdout)));
    return { code, rewards: report.rollouts.map(({ task, reward }) => [task, reward]) };
  }

  test.each([
    ['oracle', 1],
    ['nop', 0],
  ])(
    'give the %s agent a reward of %d, and none where the verifier crashes',
    async (agent, reward) => {
      await expect(rewards('incident/taskset.yaml', agent)).resolves.toEqual({
        code: 3,
        rewards: [
          ['restart-web', reward],
          ['stuck-orders', reward],
          ['full-disk', reward],
          ['guess-carrier', reward],
          ['tune-cache', reward],
          ['linked-report', reward],
          ['broken-verifier', null],
        ],
      });
    },
    120_000,
  );

  test.each([
    ['oracle', 1],
    ['nop', 0],
  ])(
    'lead the %s agent through the maze to a reward of %d',
    async (agent, reward) => {
      await expect(rewards('maze/taskset.yaml', agent)).resolves.toEqual({
        code: 0,
        rewards: [['way-out', reward]],
      });
    },
    60_000,
  );

  test('count effects in the ones made for kills', async () => {
    await expect(rewards('incident/kill-taskset.yaml', 'oracle')).resolves.toEqual({
      code: 0,
      rewards: [
        ['slow-http', 1],
        ['slow-stdio', 1],
        ['slow-exec', 1],
        ['slow-model', 1],
      ],
    });
  }, 120_000);
});
