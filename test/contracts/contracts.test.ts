import { CreateSandboxRequest, ErrorBody, ErrorCode, VerifierSpec } from '../../contracts/denv';
import { failureClasses, failureTable } from '../../contracts/failures';
import { Failure, RolloutInput } from '../../contracts/rollout';
import { Environment, TaskRow } from '../../contracts/task';
import { errorTable } from '../../denv/errors';

describe('the denv contract', () => {
  it('has a status for every error code', () => {
    expect(Object.keys(errorTable).sort()).toEqual([...ErrorCode.options].sort());
  });

  it('refuses unknown fields by name', () => {
    const parsed = CreateSandboxRequest.safeParse({ image: 'host', privileged: true });

    expect(parsed.error?.issues[0]).toMatchObject({
      code: 'unrecognized_keys',
      keys: ['privileged'],
    });
  });

  it.each([
    [{ controller: { kind: 'mcp-http' } }, 'controller.port'],
    [{ caps: { pids: 1 } }, 'caps.pids'],
    [{ files: [{ to: 'relative', tarBase64: '' }] }, 'files.0.to'],
    [{ egress: 'allow' }, 'egress'],
    [{ user: 0 }, 'user'],
  ])('refuses %j', (body, path) => {
    const parsed = CreateSandboxRequest.safeParse({ image: 'host', ...body });

    expect(parsed.error?.issues.map((issue) => issue.path.join('.'))).toEqual([path]);
  });

  it('fills in what a verifier leaves out', () => {
    expect(VerifierSpec.parse({ image: 'host', command: ['true'] })).toEqual({
      image: 'host',
      command: ['true'],
      collect: [],
      timeoutS: 600,
    });
  });

  it('has an error body that carries code and message', () => {
    expect(ErrorBody.safeParse({ error: { code: 'made_up', message: 'x' } }).success).toBe(false);
  });
});

describe('the task contract', () => {
  it.each([
    [{ image: 'host' }, true],
    [{ version: 'ver_1' }, true],
    [{ image: 'host', version: 'ver_1' }, false],
    [{}, false],
  ])('takes exactly one of image and version: %j', (environment, fits) => {
    expect(Environment.safeParse(environment).success).toBe(fits);
  });

  it.each(['a/b', '', '.hidden', 'a b', 'x'.repeat(101)])('refuses the id %p', (id) => {
    expect(TaskRow.safeParse({ id, prompt: 'p' }).success).toBe(false);
  });

  it('has no field for a secret in what a rollout is started with', () => {
    const input = {
      rolloutId: 'rollout/b/t/0',
      batchId: 'b',
      taskId: 't',
      index: 0,
      taskRef: 'sha256:0',
      identity: 'i',
      owner: 'o',
      agent: 'model',
      model: { name: 'openai/m', settings: {}, price: null, apiKey: 'sk-1' },
      limits: {},
      checkpoints: 'step',
      onOutcomeUnknown: 'restore',
    };

    expect(RolloutInput.parse(input).model).not.toHaveProperty('apiKey');
  });
});

describe('the failure types', () => {
  const failure = { class: 'infra', stage: 'loop', message: 'x' };

  it('have rows of every class', () => {
    const found = new Set(Object.values(failureTable).map((row) => row.class));

    expect([...found].sort()).toEqual([...failureClasses].sort());
  });

  it.each(Object.keys(failureTable))('%s can be recorded', (type) => {
    expect(Failure.parse({ ...failure, type })).toEqual({ ...failure, type });
  });

  it('of another release are read as they stand', () => {
    const parsed = Failure.parse({ ...failure, type: 'SunFlare' });

    expect(parsed).toEqual({ ...failure, type: 'SunFlare' });
  });

  it('do not compile where one of them is made by a name that no row has', () => {
    // @ts-expect-error: a string is no failure type
    const made: Failure = { class: 'infra', type: 'SunFlare', stage: 'loop', message: 'x' };

    expect(made.type).toBe('SunFlare');
  });
});
