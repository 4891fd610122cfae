import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { BatchReport } from '../../contracts/batch';
import { startScripted } from '../../models/scripted/server';
import type { ScriptedEndpoint } from '../../models/scripted/server';
import { HudProcess } from '../denv/hud-process';
import { until } from './until';
import { useCrashStack } from './use-crash-stack';

/** HUD rollouts through the command line, with processes killed between their start and their grade. */

const ENVS = resolve(__dirname, '../../examples/hud/envs');
const stack = useCrashStack();
let hud: HudProcess;
let model: ScriptedEndpoint;
let serial = 0;

beforeEach(async () => {
  hud = new HudProcess();
  await hud.start('text_env.py');
  // Slow enough for a process to be killed, and to be up again, while the rollout waits for it.
  const replies = [{ text: '5', delayMs: 3000 }];
  model = await startScripted({ script: { entries: [{ when: 'What is 2 + 3', replies }] } });
});
afterEach(async () => {
  await hud.end();
  await model.close();
});
async function runRow(row: { id: string; args: object }, runtime: string): Promise<BatchReport> {
  const batch = `hud-${++serial}`;
  const folder = join(stack.home, batch);
  mkdirSync(folder);
  const file = join(folder, 'tasks.json');
  writeFileSync(file, JSON.stringify([{ env: 'text', ...row }]));
  const { code, stdout, stderr } = await stack.command(
    'run',
    file,
    '--runtime',
    runtime,
    '--model',
    'scripted',
    '--batch',
    batch,
    '--base-url',
    `${model.address}/v1`,
    '--json',
  );
  if (code !== 0) throw new Error(`run exited ${code}:\n${stdout}\n${stderr}`);
  return JSON.parse(stdout) as BatchReport;
}

const add = { id: 'add', args: { a: 2, b: 3 } };
const slowGrade = { id: 'slow_grade', args: { seconds: 4 } };
const asked = () => until('the model is asked', () => Promise.resolve(model.stats().open > 0));
const grading = () =>
  until('the grade is out', () => Promise.resolve(hud.count('tasks.grade') > 0));

const whole = { outcome: 'scored', reward: 1, failure: null, attempts: 1 };

describe('kill -9 between start and grade', () => {
  it.each(['worker', 'denv'] as const)('of the %s: started once, its own reward', async (name) => {
    const running = runRow(add, `tcp://${hud.address}`);
    await asked();
    await stack.killAndAwait(name);
    const report = await running;

    expect(report.rollouts).toMatchObject([whole]);
    expect(hud.count('tasks.start')).toBe(1);
    expect(hud.count('tasks.grade')).toBe(1);
  });

  it.each(['worker', 'denv'] as const)('of the %s, with the environment here', async (name) => {
    const running = runRow(add, `local:${join(ENVS, 'text_env.py')}`);
    await asked();
    await stack.killAndAwait(name);
    const report = await running;

    expect(report.rollouts).toMatchObject([whole]);
  });
});

describe('kill -9 in a grade', () => {
  it('of the worker: the next one waits for the same grade', async () => {
    const running = runRow(slowGrade, `tcp://${hud.address}`);
    await grading();
    await stack.killAndAwait('worker');
    const report = await running;

    expect(report.rollouts).toMatchObject([whole]);
    expect(hud.count('tasks.start')).toBe(1);
    expect(hud.count('tasks.grade')).toBe(1);
  });

  it('of the denv server: that grade is lost, and a new attempt has its own', async () => {
    const running = runRow(slowGrade, `tcp://${hud.address}`);
    await grading();
    await stack.killAndAwait('denv');
    const report = await running;

    expect(report.rollouts).toMatchObject([{ ...whole, attempts: 2 }]);
    expect(hud.count('tasks.start')).toBe(2);
    expect(hud.count('tasks.grade')).toBe(2);
  });
});
