import { spawn } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { BatchReport, RolloutSummary } from '../../contracts/batch';
import { startScripted } from '../../models/scripted/server';
import type { ScriptedEndpoint } from '../../models/scripted/server';
import { HUD_PYTHON } from '../denv/hud-process';
import { useCrashStack } from '../e2e/use-crash-stack';
import { quietHud } from './hud-world';

/** The same rows, going wrong in every way, through HUD's own driver and through `rollouts run`. */

interface Case {
  name: string;
  id: string;
  args?: object;
  agent_config?: { timeout_seconds: number };
  answer: string;
  /** How long the agent takes. */
  seconds?: number;
  ours: Partial<Record<keyof RolloutSummary, unknown>>;
}

const unscored = (failure: object) => ({ outcome: 'unscored', reward: null, failure });
const task = { class: 'task' };
const verifier = { class: 'verifier' };

const cases: Case[] = [
  {
    name: 'right',
    id: 'add',
    args: { a: 2, b: 3 },
    answer: '5',
    ours: { reward: 1, failure: null },
  },
  {
    name: 'wrong',
    id: 'add',
    args: { a: 1, b: 1 },
    answer: '3',
    ours: { reward: 0, failure: null },
  },
  { name: 'below zero', id: 'penalty', answer: 'x', ours: { reward: -0.5, failure: null } },
  { name: 'never grades', id: 'no_grade', answer: 'x', ours: { reward: 0, failure: null } },
  { name: 'unknown task', id: 'nope', answer: 'x', ours: unscored(task) },
  { name: 'missing argument', id: 'add', answer: 'x', ours: unscored(task) },
  { name: 'start raises', id: 'broken_start', answer: 'x', ours: unscored(task) },
  { name: 'grader raises', id: 'broken_grader', answer: 'x', ours: unscored(verifier) },
  { name: 'grader raises a bare key', id: 'missing_key', answer: 'x', ours: unscored(verifier) },
  { name: 'grade of a wrong type', id: 'bad_grade', answer: 'x', ours: unscored(verifier) },
  { name: 'grade says error', id: 'is_error', answer: 'x', ours: unscored(verifier) },
  {
    name: 'agent timed out',
    id: 'add',
    args: { a: 20, b: 2 },
    agent_config: { timeout_seconds: 1 },
    answer: '22',
    seconds: 3,
    ours: { outcome: 'scored', failure: { class: 'agent', type: 'AgentTimeout' } },
  },
];

const ENV = resolve(__dirname, '../../examples/hud/envs/text_env.py');
const stack = useCrashStack();
let model: ScriptedEndpoint;
let report: BatchReport;
let theirs: Map<string, { is_error: boolean; reward: number | null; error: string | null }>;

beforeAll(async () => {
  model = await startScripted({
    script: {
      entries: [
        { when: 'What is 2 + 3', replies: [{ text: '5' }] },
        { when: 'What is 1 + 1', replies: [{ text: '3' }] },
        { when: 'What is 20 + 2', replies: [{ text: '22', delayMs: 3000 }] },
        { when: 'Say', replies: [{ text: 'x' }] },
      ],
    },
  });
});
afterAll(() => model.close());

async function ours(): Promise<BatchReport> {
  const folder = join(stack.home, 'failures');
  mkdirSync(folder);
  const file = join(folder, 'tasks.json');
  const rows = cases.map(({ name, id, args = {}, agent_config }) => ({
    env: 'text',
    slug: name.replaceAll(' ', '-'),
    id,
    args,
    ...(agent_config ? { agent_config } : {}),
  }));
  writeFileSync(file, JSON.stringify(rows));
  const { code, stdout, stderr } = await stack.command(
    'run',
    file,
    '--runtime',
    `local:${ENV}`,
    '--model',
    'scripted',
    '--batch',
    'failures',
    '--base-url',
    `${model.address}/v1`,
    '--concurrency',
    '3',
    '--json',
  );
  if (code !== 3) throw new Error(`run exited ${code}:\n${stdout}\n${stderr}`);
  return JSON.parse(stdout) as BatchReport;
}

function hudsOwn(): Promise<typeof theirs> {
  return new Promise((done, fail) => {
    const child = spawn(HUD_PYTHON, [resolve(__dirname, 'failures.py'), ENV], {
      env: { ...process.env, ...quietHud },
      stdio: ['pipe', 'pipe', 'ignore'],
    });
    let stdout = '';
    child.stdout.on('data', (data: Buffer) => (stdout += data.toString()));
    child.on('error', fail).on('close', (code) => {
      if (code !== 0) return fail(new Error(`failures.py ended with ${code}`));
      const lines = stdout.split('\n').filter((line) => line.startsWith('{'));
      const told = lines.map((line) => JSON.parse(line) as { name: string } & Told);
      done(new Map(told.map(({ name, ...rest }) => [name, rest])));
    });
    child.stdin.end(JSON.stringify(cases));
  });
}
type Told = { is_error: boolean; reward: number | null; error: string | null };

describe('tasks that go wrong', () => {
  it('run through both', async () => {
    report = await ours();
    theirs = await hudsOwn();

    expect(report.declared).toBe(cases.length);
    expect(theirs.size).toBe(cases.length);
  });

  it.each(cases)('$name: ours', ({ name, ours: expected }) => {
    const mine = report.rollouts.find(({ task: id }) => id === name.replaceAll(' ', '-'));

    expect(mine).toMatchObject(expected);
    expect(mine).toMatchObject({ attempts: 1 });
  });

  it.each(cases)('$name: no reward where HUD has none, the same where it has one', ({ name }) => {
    const mine = report.rollouts.find(({ task: id }) => id === name.replaceAll(' ', '-'));
    const hud = theirs.get(name);

    if (hud?.is_error) expect(mine?.reward).toBeNull();
    else if (name !== 'agent timed out') expect(mine?.reward).toBe(hud?.reward);
  });
});
