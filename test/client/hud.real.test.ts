import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { BatchReport } from '../../contracts/batch';
import { startScripted } from '../../models/scripted/server';
import type { ScriptedEndpoint } from '../../models/scripted/server';

const root = resolve(__dirname, '../..');
const examples = join(root, 'examples/hud');

/** examples/hud as its README says, on one stack for the whole file. */
describe('HUD tasks by the command line', () => {
  let home: string;
  let model: ScriptedEndpoint;

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'hud-stack-'));
    model = await startScripted({ file: join(examples, 'script.yaml') });
    const ports = ['--temporal-port', '0', '--ui-port', '0', '--denv-port', '0'];
    expect(await rollouts('up', '--detach', ...ports)).toMatchObject({ code: 0, err: '' });
  }, 120_000);

  afterAll(async () => {
    await rollouts('down');
    await model.close();
    await rm(home, { recursive: true, force: true });
  }, 120_000);

  async function rollouts(...args: string[]) {
    const { PATH, HOME, XDG_CACHE_HOME } = process.env;
    const env = { PATH, HOME, XDG_CACHE_HOME, ROLLOUTS_HOME: home };
    return new Promise<{ code: number; out: string; err: string }>((done) => {
      execFile(join(root, 'bin/rollouts'), args, { env }, (error, out, err) =>
        done({ code: typeof error?.code === 'number' ? error.code : 0, out, err }),
      );
    });
  }

  async function run(file: string, ...more: string[]) {
    const scripted = ['--model', 'scripted', '--base-url', `${model.address}/v1`];
    const args = ['run', join(examples, file), ...scripted, '--json', ...more];
    const { code, out, err } = await rollouts(...args);
    expect({ code, err }).toEqual({ code: 0, err });
    return { report: BatchReport.parse(JSON.parse(out)), told: err.split('\n')[0] };
  }

  it('runs rows on a source, and tells where', async () => {
    const source = `local:${join(examples, 'envs/text_env.py')}`;

    const { report, told } = await run('tasks.json', '--runtime', source, '--batch', 'sums');

    expect(told).toBe(`3 tasks on ${source}`);
    expect(report.rollouts.map(({ task, reward, rewards }) => ({ task, reward, rewards }))).toEqual(
      [
        { task: 'add-001a8858', reward: 1, rewards: {} },
        { task: 'forty-and-two', reward: 1, rewards: {} },
        { task: 'add_detailed-79e590c7', reward: 1, rewards: { value: 1, format: 1 } },
      ],
    );
  }, 180_000);

  it('finds the environment of a row among several, and gives its agent the tools', async () => {
    const tokens = ['--model-arg', 'return_token_ids=true'];

    const { report } = await run(
      'counter.json',
      '--runtime',
      `subprocess:${join(examples, 'envs')}`,
      ...tokens,
    );

    expect(report.rollouts.map(({ reward, toolCalls }) => [reward, toolCalls])).toEqual([
      [1, 1],
      [1, 2],
    ]);
    const { out } = await rollouts('show', report.rollouts[1]!.rolloutId);
    expect(out).toContain('\ntoken ids of 3 turns, each continuing the one before\n');
    expect(out).toContain('\nHUD environment\n  counter 1.0.0\n');
    expect(out).toMatch(/\n {2}tools +mcp\/2025-11-25 +tools of the agent +http:/);
  }, 180_000);

  it('grades one task three ways, and shows each', async () => {
    const { report } = await run('graded.yaml');

    const [rollout] = report.rollouts;
    expect(rollout).toMatchObject({ reward: 1, rewards: { hud: 1, 'one-line': 1, verify: 1 } });
    const { out } = await rollouts('show', rollout!.rolloutId);
    expect(out).toMatch(/\n {2}shell +ssh\/2 +tools of the agent +none +ssh:/);
    expect(out).toMatch(/\n {2}hud +hud +controller +1 +1 /);
    expect(out).toMatch(/\n {2}one-line +bash +sandbox +1 +1 /);
    expect(out).toMatch(/\n {2}verify +verify +verifier +1 +2 /);
    const shown = JSON.parse((await rollouts('show', rollout!.rolloutId, '--json')).out);
    expect(shown).toMatchObject({
      hud: { name: 'workspace' },
      grades: [
        { name: 'hud', evidence: { result: { grade: { score: 1 } } } },
        { name: 'one-line', evidence: { exitCode: 0 } },
        { name: 'verify' },
      ],
    });
  }, 180_000);

  it('has a start over from a version that a HUD task left', async () => {
    const rows = await rollouts('list', '--json');
    const graded = (JSON.parse(rows.out) as { rolloutId: string }[]).find(({ rolloutId }) =>
      rolloutId.includes('/write-answer/'),
    );
    const shown = JSON.parse((await rollouts('show', graded!.rolloutId, '--json')).out);
    const [{ version }] = shown.verdicts;

    const { report } = await run('written.json', '--runtime', `denv:${version}`);

    expect(report.rollouts[0]?.reward).toBe(1);
  }, 180_000);

  it('continues one by replay, and refuses a snapshot of it', async () => {
    const explore = ['explore', 'rollout/sums/forty-and-two/0', '--at', '1', '--count', '1'];

    const replayed = await rollouts(...explore, '--json');
    const refused = await rollouts(...explore, '--way', 'snapshot');

    expect(replayed.err).toContain('it continues by replay');
    expect(JSON.parse(replayed.out)).toMatchObject({ scored: 1, value: 1 });
    expect(refused).toMatchObject({ code: 2, out: '' });
    expect(refused.err).toContain('snapshot');
  }, 120_000);

  it('says what the targets can do', async () => {
    const targets = await rollouts('targets');

    expect(targets.out).toMatch(/\nfork +O\(1\) /);
    expect(targets.out).toMatch(/\nlocal +linux +works\n/);
    expect(targets.out).toMatch(/\nmodal +- +missing: Modal/);
  }, 60_000);
});
