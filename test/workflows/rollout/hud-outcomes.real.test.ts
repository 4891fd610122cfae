import { DenvError } from '../../../denv/errors';
import { FakeDenv, hudError, hudGrade } from '../../fakes/fake-denv';
import { calls } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';
import { answering, callsOf, done, hudTask } from './hud-task';

describe('outcomes of a HUD task', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

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
    expect(result.failure?.message).toContain('a HUD task lives in its environment’s memory');
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

  test('so does one that breaks its controller, when that cannot be asked any more', async () => {
    const broken = new DenvError('controller_failed', 'it broke its protocol');
    const denv = new FakeDenv();
    denv.handlers.call = ({ method }, { key }) => {
      if (method === 'hud/grade' || key.endsWith('/step/2/call/0')) throw broken;
      return undefined;
    };
    const write = calls(['write', { line: 'a' }]);

    const { result } = await env.run(hudTask(), { denv, model: [write, write] });

    expect(result).toMatchObject({
      outcome: 'unscored',
      stopReason: 'sandbox_lost',
      submissionCaused: true,
      failure: { class: 'agent', type: 'ControllerFailed' },
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
});
