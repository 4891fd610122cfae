import { TrajectoryNode } from '../../../contracts/trajectory';
import type { TrajectoryEntry } from '../../../contracts/trajectory';
import { versionIdOf } from '../../../denv/ids';
import { calls } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';

describe('rollout', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  test('runs nop to a recorded reward and leaves no sandbox', async () => {
    const { result, input, fakes } = await env.run({ agent: 'nop' });

    expect(result).toMatchObject({ outcome: 'scored', reward: 1, stopReason: 'done', steps: 0 });
    expect(await env.ledger.results([input.rolloutId])).toEqual([result]);
    expect(fakes.denv.sandboxes.size).toBe(0);
    expect(fakes.denv.created.get(`${input.rolloutId}/1/create`)).toMatchObject({
      image: 'host',
      egress: 'deny',
      labels: { owner: 'test-owner', rolloutId: input.rolloutId },
    });
  });

  test('runs the oracle’s solution to its end, whatever its exit codes are', async () => {
    const task = {
      solution: [
        ['sh', '-c', 'one'],
        ['sh', '-c', 'two'],
      ],
    };

    const { result, fakes, input } = await env.run({ agent: 'oracle', task });

    expect(result).toMatchObject({ outcome: 'scored', stopReason: 'done', workedS: 0.2 });
    expect(fakes.denv.effectsOf('exec')).toEqual([
      `${input.rolloutId}/1/solution/0`,
      `${input.rolloutId}/1/solution/1`,
    ]);
    expect((await trajectory(result.trajectory)).map(({ type }) => type)).toEqual([
      'observation',
      'observation',
    ]);
  });

  test('loops model calls and tool calls until the agent is done', async () => {
    const model = [
      calls(['write', { line: 'a' }]),
      calls(['write', { line: 'b' }], ['look', {}]),
      { text: 'mended' },
    ];

    const { result, fakes } = await env.run({}, { model });

    expect(result).toMatchObject({
      outcome: 'scored',
      reward: 1,
      stopReason: 'done',
      steps: 3,
      modelCalls: 3,
      modelCallsReissued: 0,
      toolCalls: 3,
      usage: { promptTokens: 30, completionTokens: 15, costUsd: null },
      workedS: 4.5,
    });
    expect(result.checkpoints.map(({ step }) => step)).toEqual([1, 2]);
    expect(fakes.model.requests[2]?.messages.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'tool',
      'assistant',
      'tool',
      'tool',
    ]);
    const entries = await trajectory(result.trajectory);
    expect(entries.map(({ type }) => type)).toEqual([
      'prompt',
      'reply',
      'observation',
      'reply',
      'observation',
      'observation',
      'reply',
    ]);
    expect(entries[2]).toMatchObject({ step: 1, version: result.checkpoints[0]?.version });
  });

  test('shows the agent that its arguments are no JSON, and makes no call', async () => {
    const { result, fakes } = await env.run({}, { model: [calls(['write', null]), { text: 'x' }] });

    expect(result).toMatchObject({ stopReason: 'done', steps: 2, toolCalls: 1 });
    expect(fakes.model.requests[1]?.messages.at(-1)).toEqual({
      role: 'tool',
      toolCallId: 'call_0',
      name: 'write',
      isError: true,
      parts: [
        {
          type: 'text',
          text: 'The arguments of this call are not a JSON object, so it was not made: {"line": ',
        },
      ],
    });
    expect(fakes.denv.effectsOf('call')).toHaveLength(1);
  });

  test('takes a version only where something has changed, when the task says so', async () => {
    const model = [
      calls(['look', {}]),
      calls(['write', { line: 'a' }]),
      calls(['look', {}]),
      calls(['look', {}]),
      { text: 'done' },
    ];

    const { result } = await env.run({ checkpoints: 'mutating' }, { model });

    const taken = versionIdOf(`${result.rolloutId}/1/step/3/call/0`);
    const start = versionIdOf('host');
    expect(result.checkpoints.map(({ step, version }) => [step, version])).toEqual([
      [1, start],
      [2, start],
      [3, taken],
      [4, taken],
    ]);
  });

  test('takes checkpoints at every second step, where the task says so', async () => {
    const one = calls(['look', {}]);

    const { result } = await env.run(
      { checkpoints: 2 },
      { model: [one, one, one, one, { text: 'x' }] },
    );

    expect(result.checkpoints.map(({ step }) => step)).toEqual([2, 4]);
  });

  test('goes on from a checkpoint of another rollout', async () => {
    const model = [calls(['write', { line: 'a' }]), calls(['write', { line: 'b' }]), { text: 'x' }];
    const input = await env.declare({ task: { setup: [['true']] } });

    await env.withWorker({ model }, async ({ start, denv, model: asked }) => {
      const parent = await (await start(input)).result();
      const checkpoint = parent.checkpoints[1];
      if (!checkpoint) throw new Error('no checkpoint');
      const child = {
        ...input,
        rolloutId: `${input.rolloutId}/c`,
        from: { parentRolloutId: input.rolloutId, ...checkpoint },
      };

      const result = await (await start(child)).result();

      expect(result).toMatchObject({
        outcome: 'scored',
        steps: 3,
        modelCalls: 2,
        lineage: { parentRolloutId: input.rolloutId, step: 2, version: checkpoint.version },
      });
      expect(denv.logs.get(result.sandboxId)).toEqual(['true', 'a', 'b']);
      expect(denv.effectsOf('exec')).toHaveLength(1);
      expect(asked.requests[3]?.messages).toHaveLength(3);
      expect(denv.sandboxes.size).toBe(0);
    });
  });

  async function trajectory(head: string): Promise<TrajectoryEntry[]> {
    const nodes: TrajectoryNode[] = [];
    for (let ref: string | null = head; ref;) {
      const data: Buffer = await env.blobs.get(ref);
      const node = TrajectoryNode.parse(JSON.parse(data.toString('utf8')));
      nodes.unshift(node);
      ref = node.prev;
    }
    return nodes.flatMap(({ entries }) => entries);
  }
});
