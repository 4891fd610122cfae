import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { RolloutResult } from '../../contracts/rollout';
import { startScripted } from '../../models/scripted/server';
import type { ScriptedEndpoint } from '../../models/scripted/server';
import { useCrashStack } from '../e2e/use-crash-stack';

/** Every kind of grader on one HUD task in a real sandbox, and token ids kept on the way. */

const ENVS = resolve(__dirname, '../../examples/hud/envs');
const stack = useCrashStack();
let model: ScriptedEndpoint;
let results: Map<string, RolloutResult>;

const judge = (name: string, criterion: string) => ({
  kind: 'judge',
  name,
  model: 'scripted',
  baseUrl: `${model.address}/v1`,
  criteria: [criterion, { text: 'it is rude', weight: -0.5 }],
});
const bash = (name: string, command: string) => ({
  kind: 'bash',
  name,
  command,
  cwd: '/workspace',
});

function taskset() {
  const row = (id: string, value: number, grading: object) => ({
    id,
    hud: { env: 'workspace', id: 'write_answer', args: { value } },
    grading,
  });
  const graders = [
    { kind: 'hud' },
    bash('has-file', 'test -s answer.txt'),
    judge('polite', 'it is polite'),
    { kind: 'verify' },
  ];
  return {
    name: 'graders',
    defaults: {
      verifier: {
        image: 'host',
        command: ['sh', '-c', 'echo 0.5 > /verdict/reward.txt'],
        collect: ['/workspace/answer.txt'],
      },
    },
    tasks: [
      row('weighted', 42, { graders }),
      row('any', 43, { combine: 'any', graders }),
      row('all', 43, { combine: 'all', graders }),
      row('unread', 42, { graders: [...graders, judge('silent', 'it is silent')] }),
    ],
  };
}

const write = (value: number) => ({
  when: `Write ${value} into`,
  replies: [
    { toolCalls: [{ name: 'bash', arguments: { command: 'echo 42 > answer.txt' } }] },
    { text: 'done' },
  ],
});

beforeAll(async () => {
  model = await startScripted({
    script: {
      entries: [
        { when: 'it is polite', replies: [{ text: 'It says what it did.\nMET' }] },
        { when: 'it is rude', replies: [{ text: 'Not at all.\nUNMET' }] },
        { when: 'it is silent', replies: [{ text: 'Hard to say.' }] },
        write(42),
        write(43),
      ],
    },
  });
  const folder = join(stack.home, 'graders');
  mkdirSync(folder);
  const file = join(folder, 'taskset.json');
  writeFileSync(file, JSON.stringify(taskset()));
  const { code, stdout, stderr } = await stack.command(
    'run',
    file,
    '--runtime',
    `local:${join(ENVS, 'workspace_env.py')}`,
    '--batch',
    'graders',
    '--model',
    'scripted',
    '--base-url',
    `${model.address}/v1`,
    '--concurrency',
    '2',
    '--json',
    '--model-arg',
    'return_token_ids=true',
  );
  if (code !== 3) throw new Error(`run exited ${code}:\n${stdout}\n${stderr}`);
  const ids = ['weighted', 'any', 'all', 'unread'].map((id) => `rollout/graders/${id}/0`);
  const found = await stack.rollouts.ledger.results(ids);
  results = new Map(found.map((result) => [result.taskId, result]));
});
afterAll(() => model.close());

const principals = [
  { name: 'hud', principal: 'controller' },
  { name: 'has-file', principal: 'sandbox', reward: 1 },
  { name: 'polite', principal: 'model', reward: 1 },
  { name: 'verify', principal: 'verifier', reward: 0.5 },
];

describe('graders of one task', () => {
  it('are weighted, each kept by who computed it', () => {
    const result = results.get('weighted');

    expect(result).toMatchObject({ outcome: 'scored', reward: (1 + 1 + 1 + 0.5) / 4 });
    expect(result?.grades).toMatchObject(principals);
    expect(result?.rewards).toMatchObject({ hud: 1, 'has-file': 1, polite: 1, verify: 0.5 });
  });

  it('count by their best or by their worst', () => {
    expect(results.get('any')).toMatchObject({ outcome: 'scored', reward: 1 });
    expect(results.get('all')).toMatchObject({ outcome: 'scored', reward: 0, rewards: { hud: 0 } });
  });

  it('give no reward when one of them gives none', () => {
    const result = results.get('unread');

    expect(result).toMatchObject({
      outcome: 'unscored',
      reward: null,
      failure: { class: 'verifier' },
    });
    expect(result?.grades).toMatchObject([...principals, { name: 'silent', reward: null }]);
  });
});

describe('token ids', () => {
  it('are checked: each turn extends the one before', () => {
    expect(results.get('weighted')?.tokens).toEqual({ turns: 2, broken: [] });
  });
});
