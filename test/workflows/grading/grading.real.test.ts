import type { ExecReply } from '../../../contracts/denv';
import type { Grader, Task } from '../../../contracts/task';
import { DenvError } from '../../../denv/errors';
import { ModelError } from '../../../models/model';
import { FakeDenv, hudError, hudGrade, noVerdict, reward } from '../../fakes/fake-denv';
import { calls, FakeModel } from '../../fakes/fake-model';
import type { Say } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';

const verifier = { image: 'host', command: ['sh', '/verify.sh'] };

const graded = (grading: Task['grading'], task: Partial<Task> = {}) => ({
  checkpoints: 'never' as const,
  task: { grading, ...task },
});

const hud = { hud: { id: 'add' }, prompt: undefined };

const judge = (more: Partial<Extract<Grader, { kind: 'judge' }>> = {}): Grader => ({
  kind: 'judge',
  name: 'style',
  model: 'openai/judge',
  criteria: ['It is short.', { text: 'It is kind.', weight: 3 }],
  ...more,
});

const exits = (exitCode: number | null, more: Partial<ExecReply> = {}): ExecReply => ({
  exitCode,
  stdout: 'out',
  stderr: 'err',
  truncated: false,
  timedOut: false,
  durationS: 0.1,
  ...more,
});

/** The agent answers at once; the judge says what a test wants. */
const judged = (say: (prompt: string) => Say): FakeModel =>
  new FakeModel(({ model, messages }) => {
    if (model.name !== 'openai/judge') return { text: 'Four.' };
    const [first] = messages;
    const part = first?.role === 'user' ? first.parts[0] : undefined;
    return say(part?.type === 'text' ? part.text : '');
  });

describe('grading of a rollout', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  const evidenceOf = async (ref: string | undefined): Promise<unknown> =>
    JSON.parse(String(await env.blobs.get(ref ?? '')));

  test('a verifier gives the reward, with the HUD grade beside it', async () => {
    const denv = new FakeDenv();
    denv.handlers.call = ({ method }) =>
      method === 'hud/grade'
        ? hudGrade({ score: 0.25, subscores: [{ name: 'tests', value: 0.25 }] })
        : undefined;
    denv.handlers.verify = (_request, { version }) => ({
      ...reward(version, 0.5),
      rewards: { speed: 0.75 },
    });

    const { result, input } = await env.run(graded(undefined, { ...hud, verifier }), {
      denv,
      model: [{ text: '4' }],
    });

    expect(result).toMatchObject({
      outcome: 'scored',
      reward: 0.5,
      rewards: { speed: 0.75, hud: 0.25, 'hud.tests': 0.25 },
      failure: null,
      grades: [
        { name: 'verify', principal: 'verifier', reward: 0.5 },
        { name: 'hud', principal: 'controller', reward: 0.25 },
      ],
    });
    expect(denv.effects.slice(-3)).toEqual([
      `snapshot ${input.rolloutId}/1/snapshot`,
      `call ${input.rolloutId}/1/grade/hud`,
      `verify ${input.rolloutId}/1/verify/0`,
    ]);
    expect(result.verdicts).toHaveLength(1);
  });

  test.each([
    ['raises', () => hudError('raised', 'exploded')],
    ['is lost', () => Promise.reject(new DenvError('outcome_unknown', 'it died'))],
  ])('a HUD grade beside a verdict that %s changes nothing', async (_how, answer) => {
    const denv = new FakeDenv();
    denv.handlers.call = ({ method }) => (method === 'hud/grade' ? answer() : undefined);

    const { result } = await env.run(graded(undefined, { ...hud, verifier }), {
      denv,
      model: [{ text: '4' }],
    });

    expect(result).toMatchObject({ outcome: 'scored', reward: 1, rewards: {}, failure: null });
    expect(result.grades[1]).toMatchObject({ name: 'hud', reward: null });
    expect(result.attempts).toHaveLength(1);
  });

  test('the agent’s end of its sandbox leaves a verdict on what it left', async () => {
    const denv = new FakeDenv();
    denv.handlers.call = ({ method }, { sandboxId }) => {
      if (method === 'tools/call') denv.stop(sandboxId, 'inside');
      return undefined;
    };

    const { result } = await env.run(graded(undefined, { ...hud, verifier }), {
      denv,
      model: [calls(['write', { line: 'kill 1' }]), { text: 'x' }],
    });

    expect(result).toMatchObject({ outcome: 'scored', reward: 1, submissionCaused: false });
    expect(result.grades[1]).toMatchObject({ name: 'hud', reward: null });
  });

  test('every grader is run in order, and all are combined by their weights', async () => {
    const denv = new FakeDenv();
    const execs: unknown[] = [];
    denv.handlers.exec = (request) => {
      execs.push(request);
      return exits(execs.length === 1 ? 0 : 3);
    };
    denv.handlers.call = ({ method }) =>
      method === 'hud/grade' ? hudGrade({ score: 0.5 }) : undefined;
    denv.handlers.verify = (_request, { version }) => reward(version, 0.5);
    const graders: Grader[] = [
      judge({ weight: 2 }),
      { kind: 'verify', weight: 1 },
      { kind: 'bash', name: 'tests', weight: 1, command: 'make test', cwd: '/app', timeoutS: 7 },
      { kind: 'bash', name: 'mess', weight: -0.5, command: 'test -e /tmp/mess' },
      { kind: 'hud', weight: 4, name: 'env' },
    ];
    const model = judged((prompt) => ({
      text: prompt.includes('kind') ? 'Very.\n**MET**' : 'Long.\nUNMET',
    }));

    const { result, input } = await env.run(graded({ graders }, { ...hud, verifier }), {
      denv,
      model,
    });

    // (2 × 0.75 + 1 × 0.5 + 1 × 1 + 4 × 0.5) / 8 − 0.5 × 0
    expect(result).toMatchObject({
      outcome: 'scored',
      reward: 0.625,
      rewards: {
        style: 0.75,
        'style.criterion-1': 0,
        'style.criterion-2': 1,
        verify: 0.5,
        tests: 1,
        mess: 0,
        env: 0.5,
      },
    });
    expect(result.grades.map(({ name, weight }) => [name, weight])).toEqual([
      ['style', 2],
      ['verify', 1],
      ['tests', 1],
      ['mess', -0.5],
      ['env', 4],
    ]);
    expect(denv.effects.slice(-5)).toEqual([
      `snapshot ${input.rolloutId}/1/snapshot`,
      `call ${input.rolloutId}/1/grade/env`,
      `exec ${input.rolloutId}/1/grade/tests`,
      `exec ${input.rolloutId}/1/grade/mess`,
      `verify ${input.rolloutId}/1/verify/0`,
    ]);
    expect(execs[0]).toMatchObject({ cwd: '/app', timeoutS: 7 });
    expect(await evidenceOf(result.grades[2]?.evidenceRef)).toEqual({
      principal: 'sandbox',
      command: 'make test',
      exitCode: 0,
      timedOut: false,
      durationS: 0.1,
      outputTail: 'out\nerr',
    });
  });

  test.each([
    ['any', 1],
    ['all', 0],
  ] as const)('%s of them', async (combine, value) => {
    const denv = new FakeDenv();
    denv.handlers.exec = (_request, { key }) => exits(key.endsWith('/good') ? 0 : 1);
    const graders: Grader[] = [
      { kind: 'bash', name: 'good', command: 'true' },
      { kind: 'bash', name: 'bad', command: 'false' },
    ];

    const { result } = await env.run(
      { ...graded({ combine, graders }, { verifier: undefined }), agent: 'nop' },
      { denv },
    );

    expect(result).toMatchObject({
      outcome: 'scored',
      reward: value,
      rewards: { good: 1, bad: 0 },
    });
  });

  test('a command that is killed gives no reward, and so nothing does', async () => {
    const denv = new FakeDenv();
    denv.handlers.exec = () => exits(null, { timedOut: true });
    const graders: Grader[] = [{ kind: 'bash', name: 'slow', command: 'sleep 9', timeoutS: 1 }];

    const { result } = await env.run(
      { ...graded({ graders }, { verifier: undefined }), agent: 'nop' },
      { denv },
    );

    expect(result).toMatchObject({
      outcome: 'unscored',
      rewards: {},
      failure: { class: 'verifier', message: 'the command was killed after 1 s' },
      grades: [{ name: 'slow', reward: null }],
    });
  });

  test('no command is run once the agent has ended its sandbox', async () => {
    const denv = new FakeDenv();
    denv.handlers.call = ({ method }, { sandboxId }) => {
      if (method === 'tools/call') denv.stop(sandboxId, 'inside');
      return undefined;
    };
    denv.handlers.exec = () => exits(0);
    const graders: Grader[] = [{ kind: 'bash', name: 'tests', command: 'true' }];

    const { result } = await env.run(graded({ graders }), {
      denv,
      model: [calls(['write', { line: 'kill 1' }]), { text: 'x' }],
    });

    expect(result).toMatchObject({
      outcome: 'unscored',
      failure: { class: 'agent', type: 'SandboxStopped' },
      submissionCaused: true,
    });
  });

  test('a verifier without a verdict counts as its task says', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = (_request, { version, key }) =>
      key.endsWith('/start') ? reward(version, 0) : noVerdict(version);
    denv.handlers.exec = () => exits(0);
    const graders: Grader[] = [
      { kind: 'verify' },
      { kind: 'bash', name: 'tests', command: 'true' },
    ];
    const task = { verifier: { ...verifier, noVerdict: 'zero' as const } };

    const { result } = await env.run({ ...graded({ graders }, task), agent: 'nop' }, { denv });

    expect(result).toMatchObject({
      outcome: 'scored',
      reward: 0.5,
      rewards: { verify: 0, tests: 1 },
      failure: { class: 'verifier' },
      submissionCaused: true,
    });
    expect(result.verdicts).toHaveLength(4);
  });

  test('a judge that cannot be read gives no reward, never 0', async () => {
    const model = judged(() => ({ text: 'I would rather not say.' }));

    const { result } = await env.run(graded({ graders: [judge()] }), { model });

    expect(result).toMatchObject({
      outcome: 'unscored',
      reward: null,
      failure: { class: 'verifier', type: 'VerifierFailed' },
      grades: [{ name: 'style', kind: 'judge', principal: 'model', reward: null }],
    });
    expect(await evidenceOf(result.grades[0]?.evidenceRef)).toMatchObject({
      principal: 'model',
      model: 'openai/judge',
      judged: [{ met: null, text: 'I would rather not say.' }, { met: null }],
    });
  });

  test('a judge is asked once a criterion, about the task and the answer, at nobody’s expense', async () => {
    const prompts: string[] = [];
    const model = judged((prompt) => {
      prompts.push(prompt);
      if (prompts.length === 1) return new ModelError('ModelUnavailable', '503');
      return { text: 'MET' };
    });

    const { result } = await env.run(graded({ graders: [judge()] }), { model });

    expect(result).toMatchObject({
      reward: 1,
      modelCalls: 1,
      usage: { promptTokens: 10, completionTokens: 5 },
    });
    expect(prompts).toHaveLength(3);
    expect(prompts[0]).toContain('\nMend it.\n');
    expect(prompts[0]).toContain('\nFour.\n');
    expect(prompts[1]).toContain('\nIt is short.\n');
    expect(prompts[2]).toContain('\nIt is kind.\n');
  });

  test('a judge whose endpoint will not have it is a grader without a reward, and nobody else’s fault', async () => {
    const model = judged(() => new ModelError('ModelRefused', 'policy'));

    const { result } = await env.run(graded({ graders: [judge()] }), { model });

    expect(result).toMatchObject({
      outcome: 'unscored',
      failure: { class: 'verifier', message: expect.stringContaining('policy') },
    });
    expect(result.attempts).toHaveLength(1);
  });

  test('two graders of one name are refused', async () => {
    const one: Grader = { kind: 'bash', name: 'a', command: 'true' };

    const { result } = await env.run({ ...graded({ graders: [one, one] }), agent: 'nop' });

    expect(result.failure).toMatchObject({
      class: 'task',
      message: 'task mend: grading has the name a twice',
    });
  });
});
