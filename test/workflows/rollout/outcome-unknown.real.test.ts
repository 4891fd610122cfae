import { DenvError } from '../../../denv/errors';
import { calls } from '../../fakes/fake-model';
import { FakeDenv } from '../../fakes/fake-denv';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';

const model = [
  calls(['write', { line: 'a' }]),
  calls(['write', { line: 'b' }], ['write', { line: 'c' }]),
  { text: 'done' },
];

/** Loses the outcome of the calls whose keys end so: the effect may be there, so it is. */
function losing(...keyEnds: string[]): FakeDenv {
  const denv = new FakeDenv();
  denv.handlers.call = (_request, { key, log }) => {
    if (!keyEnds.some((end) => key.endsWith(end))) return undefined;
    log.push('half');
    throw new DenvError('outcome_unknown', 'the server died while the call was out');
  };
  return denv;
}

describe('a call whose outcome nobody knows', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  test('restore goes on from before the step, in a fork, with all of its calls made again', async () => {
    const denv = losing('/1/step/2/call/1');

    const { result, input, fakes } = await env.run({}, { denv, model });

    expect(result).toMatchObject({
      outcome: 'scored',
      stopReason: 'done',
      steps: 3,
      toolCalls: 3,
      workedS: 4.5,
      lineage: { restored: [{ step: 2, version: result.checkpoints[1]?.version }] },
    });
    expect(result.attempts).toHaveLength(1);
    expect(denv.logs.get(result.sandboxId)).toEqual(['a', 'b', 'c']);
    expect(denv.effectsOf('fork')).toEqual([`${input.rolloutId}/1/restore`]);
    expect(denv.effectsOf('call').slice(-2)).toEqual([
      `${input.rolloutId}/1r1/step/2/call/0`,
      `${input.rolloutId}/1r1/step/2/call/1`,
    ]);
    expect(fakes.model.requests).toHaveLength(3);
    expect(fakes.model.requests[2]?.messages).toHaveLength(6);
    expect(denv.sandboxes.size).toBe(0);
  });

  test('restore takes the version that the server took before that very call', async () => {
    const denv = losing('/1/step/1/call/0', '/1r1/step/1/call/0');

    const { result, input } = await env.run({}, { denv, model });

    expect(result).toMatchObject({ outcome: 'scored', steps: 3, toolCalls: 3 });
    expect(result.lineage.restored).toHaveLength(2);
    expect(denv.effectsOf('fork')).toEqual([
      `${input.rolloutId}/1/restore`,
      `${input.rolloutId}/1r1/restore`,
    ]);
    expect(denv.logs.get(result.sandboxId)).toEqual(['a', 'b', 'c']);
  });

  test('restore without a version from before the step is a new attempt', async () => {
    const denv = losing('/1/step/2/call/0');

    const { result } = await env.run({ checkpoints: 'never' }, { denv, model });

    expect(result).toMatchObject({ outcome: 'scored', steps: 5, modelCalls: 5 });
    expect(result.attempts.map(({ failure }) => failure?.type ?? null)).toEqual([
      'OutcomeUnknown',
      null,
    ]);
    expect(denv.sandboxes.size).toBe(0);
  });

  test('report tells the agent', async () => {
    const denv = losing('/1/step/1/call/0');

    const { result, fakes } = await env.run({ onOutcomeUnknown: 'report' }, { denv, model });

    expect(result).toMatchObject({ outcome: 'scored', steps: 3, lineage: { restored: [] } });
    expect(fakes.model.requests[1]?.messages.at(-1)).toMatchObject({
      role: 'tool',
      isError: true,
      parts: [{ text: expect.stringContaining('outcome of this call is unknown') }],
    });
  });

  test('fail is a new attempt', async () => {
    const denv = losing('/1/step/1/call/0');

    const { result } = await env.run({ onOutcomeUnknown: 'fail' }, { denv, model });

    expect(result.attempts.map(({ failure }) => failure?.class ?? null)).toEqual(['infra', null]);
    expect(result.lineage.restored).toEqual([]);
  });
});
