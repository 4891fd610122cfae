import type { StepInput, StepOutput } from '../../activities/step';
import { DenvError } from '../../denv/errors';
import { versionIdOf } from '../../denv/ids';
import { ModelError } from '../../models/model';
import { textReply } from '../fakes/fake-denv';
import { calls } from '../fakes/fake-model';
import { activitiesOnFakes, environmentOf, run } from './on-fakes';
import type { ActivitiesOnFakes } from './on-fakes';

const world = 'rollout/b/t/0/1';
const key = `${world}/step/1/model`;
const callsKey = `${world}/step/1/call`;
type Effect = ActivitiesOnFakes['activities']['runStep'];

const two = calls(['write', { line: 'a' }], ['write', { line: 'b' }]);

async function input(bench: ActivitiesOnFakes, more: object = {}) {
  const agentRef = await bench.put({
    taskRef: await bench.put(bench.packed()),
    model: { name: 'm', settings: {}, price: null },
    tools: [
      { name: 'look', inputSchema: {}, annotations: { readOnlyHint: true } },
      { name: 'write', inputSchema: {} },
    ],
  });
  const { id } = await bench.denv.client.createSandbox(
    { image: 'host' },
    { key: `${world}/create` },
  );
  return {
    key,
    step: 1,
    agentRef,
    head: '',
    pending: [],
    timeoutS: 5,
    waitS: 60,
    sandboxId: id,
    leaseS: 300,
    callsKey,
    onOutcomeUnknown: 'restore' as const,
    checkpoint: 'step' as const,
    secondsLeft: 100,
    toolTimeoutS: 60,
    ...more,
  };
}

const logOf = (bench: ActivitiesOnFakes) => [...bench.denv.logs.values()][0];

describe('runStep', () => {
  test('asks the model and makes the calls of its reply, with one snapshot before the first', async () => {
    const bench = activitiesOnFakes([two]);

    const step = await run(bench.activities.runStep, await input(bench));

    expect(step).toEqual({
      head: expect.stringMatching(/^sha256:/),
      tools: ['write', 'write'],
      finishReason: 'tool_calls',
      tokens: [10, 5],
      costUsd: null,
      durationS: 1,
      made: [
        { ref: expect.any(String), durationS: 0.5, version: expect.any(String) },
        { ref: expect.any(String), durationS: 0.5 },
      ],
    });
    expect(bench.denv.effectsOf('call')).toEqual([`${callsKey}/0`, `${callsKey}/1`]);
    expect(logOf(bench)).toEqual(['a', 'b']);
  });

  test('takes no snapshot where the policy wants none', async () => {
    const bench = activitiesOnFakes([two]);

    const step = await run(bench.activities.runStep, await input(bench, { checkpoint: 'never' }));

    expect(step.made?.map(({ version }) => version)).toEqual([undefined, undefined]);
  });

  test('mutating: a step before which nothing changed has the version before it', async () => {
    const bench = activitiesOnFakes([calls(['look', {}]), two, two]);
    const given = await input(bench, { checkpoint: 'mutating' });
    const versions: (string | undefined)[] = [];
    let { head } = given;
    for (const step of [1, 2, 3]) {
      const at = { ...given, step, head, key: `${world}/step/${step}/model` };
      const done = await run(bench.activities.runStep, {
        ...at,
        callsKey: `${world}/step/${step}/call`,
        pending:
          step > 1
            ? [{ type: 'reply', step: step - 1, modelKey: `${world}/step/${step - 1}/model` }]
            : [],
      });
      ({ head } = done);
      versions.push(done.made?.[0]?.version);
    }

    const [first, second, third] = versions;
    expect(first).toBe(versionIdOf('host'));
    expect(second).toBe(first);
    expect(third).toBe(versionIdOf(`${world}/step/3/call/0`));
  });

  test('leaves a call of our own tools, and what comes after it, to the workflow', async () => {
    const bench = activitiesOnFakes([
      calls(['write', { line: 'a' }], ['checkpoint', { name: 'x' }], ['write', { line: 'b' }]),
    ]);
    const given = await input(bench);
    const agentRef = await bench.put({
      taskRef: await bench.put(bench.packed()),
      model: { name: 'm', settings: {}, price: null },
      tools: [],
      checkpointTools: true,
    });

    const step = await run(bench.activities.runStep, { ...given, agentRef });

    expect(step.ours).toEqual([1]);
    expect(step.made).toHaveLength(1);
    expect(step.trouble).toBeUndefined();
    expect(bench.denv.effectsOf('call')).toEqual([`${callsKey}/0`]);
  });

  test('a worker that died between model and call, or in a call, costs nothing twice', async () => {
    const bench = activitiesOnFakes([two]);
    const given = await input(bench);
    await run(bench.activities.callModel, given);

    const second = await run(bench.otherWorker().runStep, given, 2);
    const third = await run(bench.otherWorker().runStep, given, 3);

    expect(third).toEqual(second);
    expect(second.reissued).toBeUndefined();
    expect(bench.model.requests).toHaveLength(1);
    expect(bench.denv.effectsOf('call')).toEqual([`${callsKey}/0`, `${callsKey}/1`]);
    expect(logOf(bench)).toEqual(['a', 'b']);
  });

  test('waits for the running call of a worker that died', async () => {
    const bench = activitiesOnFakes([calls(['write', { line: 'a' }])]);
    bench.denv.handlers.call = async (_request, { hang }) => {
      await hang();
      return undefined;
    };
    const given = await input(bench);
    void run(bench.activities.runStep, given);
    await bench.denv.began('/call/0');

    const second = run(bench.otherWorker().runStep, given, 2);
    bench.denv.release('/call/0');

    expect(await second).toMatchObject({ made: [{ durationS: 0.5 }] });
    expect(bench.denv.effectsOf('call')).toHaveLength(1);
    expect(logOf(bench)).toEqual(['a']);
  });

  test('tells a final failure as data, beside what was made before it', async () => {
    const bench = activitiesOnFakes([two]);
    bench.denv.handlers.call = (_request, context) => {
      if (context.key.endsWith('/1')) throw new DenvError('outcome_unknown', 'it died');
      return undefined;
    };

    const step = await run(bench.activities.runStep, await input(bench));

    expect(step.made).toHaveLength(1);
    expect(step.checkpoint).toBeUndefined();
    expect(step.trouble).toEqual({
      type: 'OutcomeUnknown',
      message: 'it died',
      details: { class: 'infra', again: 'attempt' },
    });
  });

  test('tells the version that was taken before a call whose outcome is unknown', async () => {
    const bench = activitiesOnFakes([two]);
    bench.denv.handlers.call = () => {
      throw new DenvError('outcome_unknown', 'it died');
    };

    const { made, trouble } = await run(bench.activities.runStep, await input(bench));

    expect(made).toEqual([]);
    expect(trouble?.details.version).toEqual(expect.any(String));
  });

  test('leaves a call that may be asked for again to the workflow, and what comes after it', async () => {
    const bench = activitiesOnFakes([two]);
    bench.denv.handlers.call = () => {
      throw new DenvError('unavailable', 'connection refused');
    };

    const step = await run(bench.activities.runStep, await input(bench));

    expect(step).toMatchObject({ made: [], checkpoint: true });
    expect(step.trouble).toBeUndefined();
  });

  test('gives each call what is left of the agent’s time, and makes none after it', async () => {
    const bench = activitiesOnFakes([calls(['look', {}], ['look', {}], ['look', {}])]);
    const limits: (number | undefined)[] = [];
    bench.denv.handlers.call = ({ timeoutS }) => {
      limits.push(timeoutS);
      return textReply('ok', { durationS: 0.7 });
    };

    const step = await run(bench.activities.runStep, await input(bench, { secondsLeft: 2.3 }));

    expect(limits).toEqual([1.3, 0.6]);
    expect(step.made).toHaveLength(2);
    expect(step.trouble).toBeUndefined();
  });

  test.each([
    [{ ...(two as object), finishReason: 'refused' as const }],
    [calls(['write', { line: 'a' }], ['', {}])],
    [{ text: 'done' }],
  ])('makes no call of %j', async (say) => {
    const bench = activitiesOnFakes([say]);

    const step = await run(bench.activities.runStep, await input(bench));

    expect(step.made).toBeUndefined();
    expect(bench.denv.effectsOf('call')).toEqual([]);
  });

  test.each([
    ['cancelRequested', [`${callsKey}/1`]],
    ['workerShutdown', []],
  ])('on %s in a call it makes no other, and tells what was made', async (why, cancelled) => {
    const bench = activitiesOnFakes([two]);
    bench.denv.handlers.call = async (_request, context) => {
      if (context.key.endsWith('/1')) await context.hang();
      return undefined;
    };
    const environment = environmentOf();
    const given = await input(bench);
    const outcome = environment.run<[StepInput], StepOutput, Effect>(
      bench.activities.runStep,
      given,
    );
    await bench.denv.began('/call/1');

    environment.cancel('CANCELLED' as never, { [why]: true } as never);
    const step = await outcome;

    expect(step).toMatchObject({ tokens: [10, 5], made: [{ durationS: 0.5 }] });
    expect(step.trouble).toBeUndefined();
    expect(bench.denv.cancelled).toEqual(cancelled);
  });

  test('a model that fails once its wait is over is not asked again', async () => {
    const bench = activitiesOnFakes([
      new ModelError('ModelRateLimited', '429', { retryAfterS: 61 }),
    ]);
    const given = await input(bench);

    await expect(run(bench.activities.runStep, given)).rejects.toMatchObject({
      type: 'ModelRateLimited',
      nonRetryable: true,
    });
    await expect(run(bench.activities.runStep, { ...given, waitS: 62 })).rejects.toMatchObject({
      nonRetryable: false,
    });
  });

  test('a model that never answers is waited for no longer than its wait', async () => {
    const bench = activitiesOnFakes(['hang']);

    await expect(
      run(bench.activities.runStep, await input(bench, { waitS: 0.05 })),
    ).rejects.toMatchObject({
      type: 'ModelUnavailable',
      nonRetryable: true,
      message: 'no reply within 0.05 s',
    });
  });
});
