import { DenvError } from '../../../denv/errors';
import { FakeDenv } from '../../fakes/fake-denv';
import { calls, FakeModel } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';
import { hudTask } from './hud-task';

const task = { checkpointTools: true };
const write = (line: string): [string, Record<string, unknown>] => ['write', { line }];

describe('checkpoint and rollback as tools', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  /** What the agent was told in return of its calls, by the last request. */
  const told = (model: FakeModel): string[] =>
    (model.requests.at(-1)?.messages ?? []).flatMap((message) =>
      message.role === 'tool'
        ? [message.parts.map((part) => (part.type === 'text' ? part.text : '')).join('')]
        : [],
    );

  test('are offered beside the controller’s own, when the task says so', async () => {
    const { fakes } = await env.run({ task }, { model: [{ text: 'done' }] });

    expect(fakes.model.requests[0]?.tools.map(({ name }) => name)).toEqual([
      'write',
      'look',
      'checkpoint',
      'rollback',
    ]);
  });

  test('a rollback brings the files back, in another sandbox; the transcript goes on', async () => {
    const denv = new FakeDenv();
    const model = new FakeModel([
      calls(write('a'), ['checkpoint', { name: 'good' }], write('wrong')),
      calls(['rollback', { name: 'good' }], write('b')),
      { text: 'done' },
    ]);

    const { result, input } = await env.run({ task }, { denv, model });

    expect(result).toMatchObject({ outcome: 'scored', steps: 3, toolCalls: 5 });
    expect(denv.logs.get(result.sandboxId)).toEqual(['a', 'b']);
    expect(result.lineage.restored).toEqual([
      { step: 1, version: expect.any(String), sandboxId: result.sandboxId },
    ]);
    expect(told(model)).toEqual([
      'a',
      'Checkpoint "good" is kept.',
      'a\nwrong',
      'Rolled back to checkpoint "good" of step 1: all files are as they were then. Running programs, and with them what the tools kept in memory, have started anew; effects outside the sandbox are not undone.',
      'a\nb',
    ]);
    expect(denv.effectsOf('call')).toEqual([
      `${input.rolloutId}/1/tools/0`,
      `${input.rolloutId}/1/step/1/call/0`,
      `${input.rolloutId}/1/step/1/call/2`,
      `${input.rolloutId}/1r1/step/2/call/1`,
    ]);
    expect(denv.sandboxes.size).toBe(0);
  });

  test('what cannot be done is told, and nothing is lost by it', async () => {
    const model = new FakeModel([
      calls(['rollback', { name: 'x' }], ['rollback', {}], ['checkpoint', { name: '' }]),
      { text: 'done' },
    ]);

    const { result } = await env.run({ task }, { model });

    expect(result).toMatchObject({ outcome: 'scored', lineage: { restored: [] } });
    expect(told(model)).toEqual([
      'There is no checkpoint "x". Kept are: none.',
      'There is no checkpoint "checkpoint". Kept are: none.',
      'give `name`, a text of 1 to 64 characters',
    ]);
  });

  test('ten rollbacks are all that a rollout has', async () => {
    const model = new FakeModel((_request, turn) => {
      if (turn === 0) return calls(['checkpoint', { name: 'x' }]);
      return turn <= 11 ? calls(['rollback', { name: 'x' }]) : { text: 'done' };
    });

    const { result } = await env.run({ task }, { model });

    expect(result.lineage.restored).toHaveLength(10);
    expect(told(model).at(-1)).toBe('Nothing was rolled back: a rollout has at most 10 rollbacks.');
  });

  test('a rollback whose sandbox is lost later is not made again', async () => {
    const denv = new FakeDenv();
    let lost = false;
    denv.handlers.call = (_request, { key }) => {
      if (!lost && key.endsWith('/1r1/step/3/call/0')) {
        lost = true;
        throw new DenvError('sandbox_not_found', 'the host is gone');
      }
      return undefined;
    };
    const model = [
      calls(write('a'), ['checkpoint', { name: 'x' }], write('wrong')),
      calls(['rollback', { name: 'x' }]),
      calls(write('b')),
      calls(write('c')),
      { text: 'done' },
    ];

    const { result } = await env.run({ task }, { denv, model });

    expect(result).toMatchObject({ outcome: 'scored' });
    expect(result.lineage.restored.length).toBeGreaterThanOrEqual(2);
    expect(denv.sandboxes.size).toBe(0);
  });

  test('are refused by name for a HUD task, and where the controller has tools of these names', async () => {
    const hud = await env.run(hudTask({}, task), { model: [] });

    expect(hud.result.failure).toMatchObject({
      class: 'task',
      type: 'CapabilityMissing',
      message: expect.stringContaining('checkpointTools'),
    });

    const denv = new FakeDenv();
    denv.handlers.call = ({ method }) =>
      method === 'tools/list'
        ? {
            result: { tools: [{ name: 'rollback', inputSchema: {} }] },
            timedOut: false,
            durationS: 0,
          }
        : undefined;
    const { result } = await env.run({ task }, { denv, model: [] });

    expect(result.failure).toMatchObject({
      class: 'task',
      type: 'InvalidRequest',
      message: 'checkpointTools: the controller has a tool of its own that is named rollback',
    });
  });
});
