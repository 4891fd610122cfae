import { DenvError } from '../../../denv/errors';
import { calls } from '../../fakes/fake-model';
import { FakeDenv, noVerdict, reward } from '../../fakes/fake-denv';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';

describe('outcomes of a rollout', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  test('a set-up command that fails is the task, final, unscored', async () => {
    const denv = new FakeDenv();
    denv.handlers.exec = () => ({
      exitCode: 7,
      stdout: '',
      stderr: 'no such file',
      truncated: false,
      timedOut: false,
      durationS: 0.1,
    });

    const { result } = await env.run({ agent: 'nop', task: { setup: [['false']] } }, { denv });

    expect(result).toMatchObject({
      outcome: 'unscored',
      reward: null,
      failure: {
        class: 'task',
        type: 'SetupFailed',
        stage: 'setup',
        message: 'setup command 0 ended with 7: no such file',
      },
    });
    expect(denv.effectsOf('create')).toHaveLength(1);
    expect(denv.effectsOf('verify')).toEqual([]);
    expect(denv.sandboxes.size).toBe(0);
  });

  test.each([
    ['controller_failed', 'controller', 'ControllerFailed'],
    ['key_conflict', 'infra', 'KeyConflict'],
  ] as const)('%s is tried again in new sandboxes, up to the cap', async (code, klass, type) => {
    const denv = new FakeDenv();
    denv.handlers.create = () => {
      throw new DenvError(code, 'it did not start');
    };

    const { result, input } = await env.run({ agent: 'nop', limits: { maxAttempts: 2 } }, { denv });

    expect(result).toMatchObject({
      outcome: 'unscored',
      reward: null,
      failure: { class: klass, type, stage: 'create' },
    });
    expect(result.attempts.map(({ failure }) => failure?.class)).toEqual([klass, klass]);
    expect(denv.effectsOf('create')).toEqual([
      `${input.rolloutId}/1/create`,
      `${input.rolloutId}/2/create`,
    ]);
    expect(denv.deleted).toHaveLength(2);
  });

  test('a missing image is the task and is not tried again', async () => {
    const denv = new FakeDenv();
    denv.handlers.create = () => {
      throw new DenvError('image_not_found', 'no image tar:/nowhere');
    };

    const { result } = await env.run({ agent: 'nop' }, { denv });

    expect(result.failure).toEqual({
      class: 'task',
      type: 'ImageNotFound',
      stage: 'create',
      message: 'no image tar:/nowhere',
    });
    expect(denv.effectsOf('create')).toHaveLength(1);
  });

  test('a second attempt that passes counts as one scored rollout with two attempts', async () => {
    const denv = new FakeDenv();
    denv.handlers.create = (_request, { key }) => {
      if (key.endsWith('/1/create')) throw new DenvError('controller_failed', 'not ready in time');
    };

    const { result } = await env.run({}, { denv, model: [{ text: 'done' }] });

    expect(result).toMatchObject({ outcome: 'scored', reward: 1, failure: null, steps: 1 });
    expect(result.attempts.map(({ failure }) => failure?.type ?? null)).toEqual([
      'ControllerFailed',
      null,
    ]);
  });

  test('a server that is away for a while costs nothing: the same key is asked again', async () => {
    const denv = new FakeDenv();
    let away = 3;
    denv.handlers.create = () => {
      if (away-- > 0) throw new DenvError('unavailable', 'connection refused');
    };

    const { result } = await env.run({ agent: 'nop' }, { denv });

    expect(result).toMatchObject({ outcome: 'scored', attempts: [{ attempt: 1, failure: null }] });
    expect(denv.sandboxes.size).toBe(0);
  });

  test('a verifier without a verdict runs twice more on the same version, then on the start version', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = (_request, { version }) => noVerdict(version);

    const { result, input } = await env.run({ agent: 'nop' }, { denv });

    expect(result).toMatchObject({
      outcome: 'unscored',
      reward: null,
      failure: {
        class: 'verifier',
        type: 'VerifierFailed',
        message: 'no verdict: the verifier crashed',
      },
      submissionCaused: false,
    });
    expect(denv.effectsOf('verify')).toEqual(
      ['0', '1', '2', 'start'].map((what) => `${input.rolloutId}/1/verify/${what}`),
    );
    expect(result.verdicts.map(({ of }) => of)).toEqual([
      'submission',
      'submission',
      'submission',
      'start',
    ]);
    expect(result.attempts).toHaveLength(1);
  });

  test('a verdict at the second try counts', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = (_request, { key, version }) =>
      key.endsWith('/1') ? reward(version, 0.5) : noVerdict(version);

    const { result } = await env.run({ agent: 'nop' }, { denv });

    expect(result).toMatchObject({ outcome: 'scored', reward: 0.5, failure: null });
    expect(result.verdicts).toHaveLength(2);
  });

  test.each([
    ['zero', 'scored', 0],
    ['unscored', 'unscored', null],
  ] as const)(
    'a submission that breaks the verifier counts as the task says: %s',
    async (policy, outcome, value) => {
      const denv = new FakeDenv();
      denv.handlers.verify = (_request, { key, version }) =>
        key.endsWith('/start') ? reward(version, 0) : noVerdict(version);
      const verifier = { image: 'host', command: ['sh'], noVerdict: policy };

      const { result } = await env.run({ agent: 'nop', task: { verifier } }, { denv });

      expect(result).toMatchObject({
        outcome,
        reward: value,
        failure: { class: 'verifier' },
        submissionCaused: true,
      });
    },
  );

  test('a start version that cannot be judged leaves the fault where it is: unknown', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = (_request, { key, version }) => {
      if (key.endsWith('/start')) throw new DenvError('version_not_found', 'it was removed');
      return noVerdict(version);
    };

    const { result } = await env.run({ agent: 'nop' }, { denv });

    expect(result).toMatchObject({
      outcome: 'unscored',
      failure: { class: 'verifier' },
      submissionCaused: false,
    });
  });

  test('a refused submission is 0, and the verdict says why', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = () => {
      const base = noVerdict('v');
      const refused = { path: '/workspace/cause.txt', why: 'a symbolic link' };
      return { ...base, verdict: 'refused', reward: 0, evidence: { ...base.evidence, refused } };
    };

    const { result } = await env.run({ agent: 'nop' }, { denv });

    expect(result).toMatchObject({ outcome: 'scored', reward: 0, failure: null });
    expect(result.verdicts[0]?.summary).toBe(
      'submission refused: /workspace/cause.txt: a symbolic link',
    );
  });

  test('a sandbox that its agent ends is verified all the same, with no second try', async () => {
    const denv = new FakeDenv();
    denv.handlers.call = (request, { sandboxId, key }) => {
      if (request.method === 'tools/call' && key.endsWith('step/2/call/0')) {
        denv.stop(sandboxId, 'inside');
        const stopped = denv.sandboxes.get(sandboxId)?.stopped;
        throw new DenvError('sandbox_stopped', 'it stopped', { details: { stopped } });
      }
      return undefined;
    };
    const model = [calls(['write', { line: 'a' }]), calls(['write', { line: 'b' }]), { text: 'x' }];

    const { result, fakes } = await env.run({}, { denv, model });

    expect(result).toMatchObject({
      outcome: 'scored',
      reward: 1,
      stopReason: 'sandbox_lost',
      failure: { class: 'agent', type: 'SandboxStopped' },
      steps: 2,
    });
    expect(result.attempts).toHaveLength(1);
    expect(fakes.model.requests).toHaveLength(2);
  });

  test('a sandbox that the host lost is restored once from the checkpoint of the step', async () => {
    const denv = new FakeDenv();
    let lost = false;
    denv.handlers.call = (request, { sandboxId, key }) => {
      if (!lost && request.method === 'tools/call' && key.endsWith('step/2/call/1')) {
        lost = true;
        denv.stop(sandboxId, 'outside');
        throw new DenvError('sandbox_stopped', 'it stopped');
      }
      return undefined;
    };
    const model = [
      calls(['write', { line: 'a' }]),
      calls(['write', { line: 'b' }], ['write', { line: 'c' }]),
      { text: 'done' },
    ];

    const { result, fakes, input } = await env.run({}, { denv, model });

    expect(result).toMatchObject({ outcome: 'scored', stopReason: 'done', steps: 3, toolCalls: 3 });
    expect(result.lineage.restored).toEqual([
      {
        step: 2,
        version: result.checkpoints[1]?.version,
        sandboxId: result.sandboxId,
      },
    ]);
    expect(denv.logs.get(result.sandboxId)).toEqual(['a', 'b', 'c']);
    expect(denv.effectsOf('call')).toContain(`${input.rolloutId}/1r1/step/2/call/0`);
    expect(fakes.model.requests).toHaveLength(3);
    expect(denv.sandboxes.size).toBe(0);
  });

  test.each([
    ['while the model thought', 'step/2/call/0', 1],
    ['after its last word', 'verify/0', 2],
  ])(
    'a sandbox that the host lost %s is restored once from the last checkpoint',
    async (_when, end, step) => {
      const denv = new FakeDenv();
      let lost = false;
      const loseAt = (key: string): void => {
        if (lost || !key.endsWith(`/1/${end}`)) return;
        lost = true;
        throw new DenvError('sandbox_not_found', 'the host is gone');
      };
      denv.handlers.call = (_request, { key }) => {
        loseAt(key);
        return undefined;
      };
      denv.handlers.verify = (_request, { key, version }) => {
        loseAt(key);
        return reward(version, 1);
      };
      const model = [
        calls(['write', { line: 'a' }]),
        calls(['write', { line: 'b' }]),
        { text: 'done' },
      ];

      const { result } = await env.run({}, { denv, model });

      expect(result).toMatchObject({ outcome: 'scored', reward: 1, failure: null });
      expect(result.attempts).toHaveLength(1);
      expect(result.lineage.restored).toEqual([
        { step, version: expect.any(String), sandboxId: result.sandboxId },
      ]);
      expect(denv.logs.get(result.sandboxId)).toEqual(['a', 'b']);
      expect(denv.sandboxes.size).toBe(0);
    },
  );

  test('a host that loses the sandbox again leads to a new attempt', async () => {
    const denv = new FakeDenv();
    denv.handlers.verify = (_request, { key, version }) => {
      if (key.includes('/1/') || key.includes('/1r')) {
        throw new DenvError('sandbox_not_found', 'the host is gone');
      }
      return reward(version, 1);
    };

    const { result } = await env.run(
      {},
      { denv, model: [calls(['write', { line: 'a' }]), { text: 'done' }] },
    );

    expect(result).toMatchObject({ outcome: 'scored', reward: 1 });
    expect(result.attempts.map(({ failure }) => failure?.type ?? null)).toEqual([
      'SandboxNotFound',
      null,
    ]);
    expect(result.lineage.restored).toHaveLength(1);
  });

  test('a sandbox that is gone without a checkpoint leads to a new attempt', async () => {
    const denv = new FakeDenv();
    denv.handlers.call = (request, { key }) => {
      if (request.method === 'tools/call' && key.includes('/1/step/')) {
        throw new DenvError('sandbox_not_found', 'no such sandbox');
      }
      return undefined;
    };
    const model = [calls(['write', { line: 'a' }]), { text: 'done' }];

    const { result } = await env.run({ checkpoints: 'never' }, { denv, model });

    expect(result).toMatchObject({
      outcome: 'scored',
      modelCalls: 3,
      steps: 3,
      usage: { promptTokens: 30 },
    });
    expect(result.attempts.map(({ failure }) => failure?.type ?? null)).toEqual([
      'SandboxNotFound',
      null,
    ]);
  });

  test('a controller that breaks its protocol before the first step is nobody’s doing', async () => {
    const denv = new FakeDenv();
    denv.handlers.call = (request, { key }) => {
      if (key.includes('/1/tools'))
        return { result: { nonsense: 1 }, timedOut: false, durationS: 0 };
      return undefined;
    };

    const { result } = await env.run({}, { denv, model: [{ text: 'done' }] });

    expect(result.attempts[0]?.failure).toMatchObject({ class: 'controller', stage: 'ready' });
    expect(result).toMatchObject({ outcome: 'scored', failure: null });
  });

  test('a cost limit on a model without a price is refused before any sandbox', async () => {
    const { result, fakes } = await env.run({ limits: { maxCostUsd: 1 } });

    expect(result.failure).toMatchObject({ class: 'task', type: 'InvalidRequest' });
    expect(fakes.denv.effects).toEqual([]);
  });

  test('a stop that fails changes nothing in the result', async () => {
    const denv = new FakeDenv();
    denv.handlers.delete = () => {
      throw new DenvError('invalid_request', 'cannot delete this');
    };

    const { result } = await env.run({ agent: 'nop' }, { denv });

    expect(result).toMatchObject({ outcome: 'scored', reward: 1 });
  });
});
