import type { CallRequest } from '../../../contracts/denv';
import { DenvError } from '../../../denv/errors';
import { cancelSignal } from '../../../workflows/messages';
import { FakeDenv, hudGrade } from '../../fakes/fake-denv';
import { calls } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';
import { answering, callsOf, done, hudTask } from './hud-task';

describe('a rollout of a HUD task', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

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

  test('cancelled in the middle of a grade, it ends that and leaves nothing', async () => {
    const denv = answering('hud/grade', async (_request, { hang }) => {
      await hang();
      throw new DenvError('outcome_unknown', 'it was cancelled');
    });
    const input = await env.declare(hudTask());

    await env.withWorker({ denv, model: done }, async ({ start }) => {
      const handle = await start(input);
      await denv.began('/grade/hud');
      await handle.signal(cancelSignal);
      await expect(handle.result()).rejects.toThrow();
    });

    const [result] = await env.ledger.results([input.rolloutId]);
    expect(result).toMatchObject({ outcome: 'unscored', failure: { class: 'cancelled' } });
    expect(denv.cancelled).toEqual([`${input.rolloutId}/1/grade/hud`]);
    expect(denv.sandboxes.size).toBe(0);
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
});
