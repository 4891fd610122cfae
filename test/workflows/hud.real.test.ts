import type { CallRequest } from '../../contracts/denv';
import type { RolloutInput } from '../../contracts/rollout';
import type { Task } from '../../contracts/task';
import { DenvError } from '../../denv/errors';
import { FakeDenv, hudError, hudGrade, hudResult } from '../fakes/fake-denv';
import type { FakeHandlers } from '../fakes/fake-denv';
import { calls } from '../fakes/fake-model';
import { openTemporal } from '../temporal-env';
import type { TemporalEnv } from '../temporal-env';

/** A rollout of a HUD task alone, with the policies that such tasks have by default. */
const hudTask = (hud: Partial<Task['hud']> = {}, task: Partial<Task> = {}) => ({
  checkpoints: 'never' as const,
  onOutcomeUnknown: 'report' as const,
  task: {
    prompt: undefined,
    verifier: undefined,
    environment: { image: 'host', controller: { kind: 'hud' as const } },
    hud: { id: 'add', args: { a: 2 }, ...hud },
    ...task,
  },
});

const done = [{ text: '4' }];

/** Answers one method by a handler. */
function answering(method: CallRequest['method'], answer: FakeHandlers['call']): FakeDenv {
  const denv = new FakeDenv();
  denv.handlers.call = (request, context) =>
    request.method === method ? answer(request, context) : undefined;
  return denv;
}

const callsOf = (denv: FakeDenv, what: string): string[] =>
  denv.effectsOf('call').filter((key) => key.includes(what));

describe('a rollout of a HUD task', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  const historyOf = async ({ rolloutId }: RolloutInput): Promise<string> =>
    JSON.stringify(await env.temporal.client.workflow.getHandle(rolloutId).fetchHistory());

  test('sets up, starts the task, shows its prompt, and grades the answer', async () => {
    const requests: CallRequest[] = [];
    const denv = new FakeDenv();
    denv.handlers.call = (request) => void requests.push(request);
    const spec = hudTask({ env: 'sums', capabilities: ['mcp'] }, { setup: [['true']] });
    const model = [calls(['write', { line: 'a' }]), { text: 'The sum is 4.' }];

    const { result, input, fakes } = await env.run(spec, { denv, model });

    expect(result).toMatchObject({
      outcome: 'scored',
      reward: 1,
      rewards: {},
      failure: null,
      stopReason: 'done',
      verdicts: [],
      grades: [{ name: 'hud', kind: 'hud', principal: 'controller', reward: 1, weight: 1 }],
    });
    expect(denv.effects.filter((effect) => !effect.startsWith('renew'))).toEqual([
      `create ${input.rolloutId}/1/create`,
      `exec ${input.rolloutId}/1/setup/0`,
      `call ${input.rolloutId}/1/start`,
      `call ${input.rolloutId}/1/tools/0`,
      `call ${input.rolloutId}/1/step/1/call/0`,
      `call ${input.rolloutId}/1/grade/hud`,
    ]);
    expect(requests[0]).toEqual({
      method: 'hud/start',
      params: { id: 'add', args: { a: 2 }, env: 'sums', capabilities: ['mcp'] },
      timeoutS: 3600,
    });
    expect(requests.at(-1)).toEqual({
      method: 'hud/grade',
      params: { answer: 'The sum is 4.' },
      timeoutS: 7200,
    });
    expect(fakes.model.requests[0]?.messages).toEqual([
      { role: 'user', parts: [{ type: 'text', text: 'Mend it, says HUD.' }] },
    ]);
    expect(denv.sandboxes.size).toBe(0);
    const evidence = await env.blobs.get(result.grades[0]?.evidenceRef ?? '');
    expect(JSON.parse(String(evidence))).toMatchObject({
      principal: 'controller',
      result: { grade: { score: 1 }, verifier: null },
    });
  });

  test('an agent that says nothing has an empty answer', async () => {
    let answer: unknown;
    const denv = answering('hud/grade', ({ params }) => {
      answer = params?.answer;
      return hudGrade({ score: 0 });
    });

    const { result } = await env.run({ ...hudTask(), agent: 'nop' }, { denv });

    expect(result).toMatchObject({ outcome: 'scored', reward: 0, steps: 0 });
    expect(answer).toBe('');
  });

  test('subscores are named rewards, and a reward may be below 0', async () => {
    const grade = {
      score: -0.5,
      info: { loss: { $number: 'NaN' } },
      subscores: [
        { name: 'tests', value: 1, weight: 1 },
        { name: 'tests', value: 0.5, weight: 1 },
        { name: 'lost', value: { $number: 'NaN' }, weight: 1 },
        { name: 'hurry', value: 1, weight: -1.5 },
      ],
    };
    const denv = answering('hud/grade', () => hudGrade(grade));

    const { result } = await env.run(hudTask(), { denv, model: done });

    expect(result).toMatchObject({
      outcome: 'scored',
      reward: -0.5,
      rewards: { tests: 1, 'tests-2': 0.5, hurry: 1 },
    });
    const evidence = await env.blobs.get(result.grades[0]?.evidenceRef ?? '');
    expect(JSON.parse(String(evidence))).toMatchObject({ result: { grade } });
  });

  test('a verifier of the task’s own is graded in the same call, and its score counts', async () => {
    const verifier = { id: 'check', args: { strict: true } };
    let params: unknown;
    const denv = answering('hud/grade', (request) => {
      params = request.params;
      return hudGrade({ score: 1 }, { score: 0.25, subscores: [{ name: 'v', value: 0.25 }] });
    });

    const { result } = await env.run(hudTask({ verifier }), { denv, model: done });

    expect(params).toEqual({ answer: '4', verifier });
    expect(result).toMatchObject({ reward: 0.25, rewards: { v: 0.25 } });
  });

  test.each([
    ['isError', hudGrade({ score: 1, isError: true, content: 'no network' }), 'no network'],
    ['raises', hudError('raised', 'grader exploded'), 'grader exploded'],
    ['gives no finite score', hudGrade({ score: { $number: 'NaN' } }), 'no finite score'],
    ['breaks the protocol', hudError('protocol', 'a frame past 16 MiB'), 'a frame past 16 MiB'],
    ['has no end', { timedOut: true, durationS: 7200 }, 'no end in 7200 s'],
  ])('a grader that %s leaves it unscored, and is never asked again', async (_how, reply, why) => {
    const denv = answering('hud/grade', () => reply);

    const { result } = await env.run(hudTask(), { denv, model: done });

    expect(result).toMatchObject({
      outcome: 'unscored',
      reward: null,
      failure: { class: 'verifier', type: 'VerifierFailed', stage: 'verify' },
      submissionCaused: false,
      grades: [{ name: 'hud', reward: null }],
    });
    expect(result.failure?.message).toContain(why);
    expect(result.attempts).toHaveLength(1);
    expect(callsOf(denv, '/grade/')).toHaveLength(1);
  });

  test.each([
    ['bad arguments', hudError('bad_task', 'a: must be integer'), 'InvalidRequest'],
    ['a start that raises', hudError('raised', 'no such repo'), 'SetupFailed'],
    ['a start without end', { timedOut: true, durationS: 9 }, 'SetupFailed'],
  ])('%s is the task, without a second attempt', async (_what, reply, type) => {
    const denv = answering('hud/start', () => reply);

    const { result } = await env.run(hudTask(), { denv, model: [] });

    expect(result).toMatchObject({
      outcome: 'unscored',
      failure: { class: 'task', type, stage: 'setup' },
    });
    expect(denv.effectsOf('create')).toHaveLength(1);
    expect(callsOf(denv, '/grade/')).toEqual([]);
  });

  test.each([
    ['unknown', 'infra', () => Promise.reject(new DenvError('outcome_unknown', 'it died'))],
    ['no session', 'controller', () => Promise.reject(new DenvError('controller_failed', '?'))],
    ['broken', 'controller', () => hudError('protocol', 'no JSON')],
  ] as const)('a start that is %s is a new attempt', async (_how, klass, answer) => {
    const denv = answering('hud/start', (_request, { key }) =>
      key.endsWith('/1/start') ? answer() : undefined,
    );

    const { result } = await env.run(hudTask(), { denv, model: done });

    expect(result).toMatchObject({ outcome: 'scored', reward: 1 });
    expect(result.attempts.map(({ failure }) => failure?.class ?? null)).toEqual([klass, null]);
  });

  test('a grade that is lost is a new attempt, and no sandbox is graded twice', async () => {
    const denv = answering('hud/grade', (_request, { key }) => {
      if (key.includes('/1/grade')) throw new DenvError('outcome_unknown', 'it died');
      return hudGrade({ score: 0.75 });
    });

    const { result, input } = await env.run(hudTask(), { denv, model: done });

    expect(result).toMatchObject({ outcome: 'scored', reward: 0.75, modelCalls: 2 });
    expect(result.attempts.map(({ failure }) => failure?.type ?? null)).toEqual([
      'OutcomeUnknown',
      null,
    ]);
    expect(callsOf(denv, '/grade/')).toEqual([
      `${input.rolloutId}/1/grade/hud`,
      `${input.rolloutId}/2/grade/hud`,
    ]);
    expect([...denv.hud.values()].every(({ grade }) => grade !== undefined)).toBe(true);
    expect(denv.hud.size).toBe(2);
  });

  test('a worker that goes in the middle of a grade: the next one waits for the same', async () => {
    const denv = answering('hud/grade', async (_request, { hang }) => {
      await hang();
      return hudGrade({ score: 0.5 });
    });
    const input = await env.declare(hudTask());

    const { handle, taskQueue } = await env.withWorker({ denv, model: done }, async (running) => {
      const started = await running.start(input);
      await denv.began('/grade/hud');
      return { handle: started, taskQueue: running.taskQueue };
    });
    const result = await env.withWorker({ denv, model: [], taskQueue }, async () => {
      denv.release('/grade/hud');
      return handle.result();
    });

    expect(result).toMatchObject({ outcome: 'scored', reward: 0.5, modelCalls: 1 });
    expect(result.attempts).toHaveLength(1);
    expect(callsOf(denv, '/grade/')).toHaveLength(1);
    expect(callsOf(denv, '/start')).toHaveLength(1);
  });

  test('nothing is restored: with that policy, an unknown outcome is a new attempt', async () => {
    const denv = answering('tools/call', (_request, { key }) => {
      if (key.includes('/1/step/')) throw new DenvError('outcome_unknown', 'it died');
      return undefined;
    });
    const policies = { checkpoints: 'step', onOutcomeUnknown: 'restore' } as const;
    const model = [calls(['write', { line: 'a' }]), { text: 'x' }];

    const { result } = await env.run({ ...hudTask(), ...policies }, { denv, model });

    expect(result).toMatchObject({ outcome: 'scored', lineage: { restored: [] } });
    expect(result.attempts.map(({ failure }) => failure?.type ?? null)).toEqual([
      'OutcomeUnknown',
      null,
    ]);
    expect(denv.effectsOf('fork')).toEqual([]);
  });

  test('a continuation of one is refused by name', async () => {
    const from = {
      parentRolloutId: 'p',
      step: 1,
      version: 'ver_1',
      trajectory: '',
      spent: { tokens: 0, costUsd: 0, workedS: 0 },
    };

    const { result } = await env.run({ ...hudTask(), from }, { model: [] });

    expect(result).toMatchObject({ outcome: 'unscored', failure: { class: 'task' } });
    expect(result.failure?.message).toContain('is a HUD task');
  });

  test.each([
    ['unscored', { outcome: 'unscored', reward: null, rewards: {} }],
    ['zero', { outcome: 'scored', reward: 0, rewards: {} }],
  ] as const)('an agent that ends its environment: %s', async (noGrade, ending) => {
    const denv = answering('tools/call', (_request, { sandboxId }) => {
      denv.stop(sandboxId, 'inside');
      return undefined;
    });
    const model = [calls(['write', { line: 'kill 1' }]), { text: 'x' }];

    const { result } = await env.run(hudTask({ noGrade }), { denv, model });

    expect(result).toMatchObject({
      ...ending,
      submissionCaused: true,
      failure: { class: 'agent', type: 'SandboxStopped' },
    });
    expect(result.attempts).toHaveLength(1);
  });

  test('an environment that the host ended is a new attempt', async () => {
    const denv = answering('tools/call', (_request, { sandboxId, key }) => {
      if (key.includes('/1/step/')) denv.stop(sandboxId, 'outside');
      return undefined;
    });
    const model = [calls(['write', { line: 'a' }]), { text: 'x' }];

    const { result } = await env.run(hudTask(), { denv, model });

    expect(result).toMatchObject({ outcome: 'scored', reward: 1 });
    expect(result.attempts.map(({ failure }) => failure?.type ?? null)).toEqual([
      'SandboxStopped',
      null,
    ]);
  });

  describe('prompts', () => {
    const prompting = (prompt: unknown): FakeDenv =>
      answering('hud/start', () => hudResult({ prompt }));

    test('a conversation is shown as one, after the system prompt', async () => {
      const denv = prompting([
        { role: 'system', content: 'Sums only.' },
        { role: 'user', content: [{ type: 'text', text: '1 + 1?' }] },
        { role: 'assistant', content: '2' },
        {
          role: 'critic',
          content: [
            { type: 'text', text: 'And this?' },
            { type: 'image', data: 'AAEC', mimeType: 'image/png' },
          ],
        },
      ]);
      const choice = { name: 'm', settings: { systemPrompt: 'Be brief.' }, price: null };
      const say = (): { text: string } => ({ text: '4' });

      const { fakes } = await env.run(
        { ...hudTask(), model: choice },
        { denv, model: [say(), say()] },
      );

      expect(fakes.model.requests[0]?.messages).toEqual([
        { role: 'system', text: 'Be brief.' },
        { role: 'system', text: 'Sums only.' },
        { role: 'user', parts: [{ type: 'text', text: '1 + 1?' }] },
        { role: 'assistant', text: '2', toolCalls: [] },
        {
          role: 'user',
          parts: [
            { type: 'text', text: 'And this?' },
            { type: 'image', mimeType: 'image/png', base64: 'AAEC' },
          ],
        },
      ]);
    });

    test.each([
      ['null', null, 'starts without a prompt'],
      [
        'an image by address',
        [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'http://x/y.png' } }] }],
        '"image_url"',
      ],
      ['a number', 4, 'neither a text nor a list'],
    ])('%s is the task: a model cannot be asked', async (_what, prompt, why) => {
      const { result } = await env.run(hudTask(), { denv: prompting(prompt), model: [] });

      expect(result).toMatchObject({ outcome: 'unscored', failure: { class: 'task' } });
      expect(result.failure?.message).toContain(why);
      expect(result.attempts).toHaveLength(1);
    });

    test('null is none for an agent that asks no model', async () => {
      const { result } = await env.run({ ...hudTask(), agent: 'nop' }, { denv: prompting(null) });

      expect(result).toMatchObject({ outcome: 'scored', reward: 1 });
    });

    test('10 MiB of it reach the model, and no history', async () => {
      const prompt = 'p'.repeat(10 * 1024 * 1024);

      const { fakes, input } = await env.run(hudTask(), { denv: prompting(prompt), model: done });

      expect(fakes.model.requests[0]?.messages[0]).toEqual({
        role: 'user',
        parts: [{ type: 'text', text: prompt }],
      });
      expect((await historyOf(input)).length).toBeLessThan(200_000);
    });
  });
});
