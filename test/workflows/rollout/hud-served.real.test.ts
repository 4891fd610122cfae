import type { HudTask } from '../../../contracts/task';
import { HudProcess } from '../../denv/hud-process';
import { ServerProcess } from '../../denv/server-process';
import { FakeModel } from '../../fakes/fake-model';
import { openTemporal } from '../../temporal-env';
import type { TemporalEnv } from '../../temporal-env';

const mib = 1024 * 1024;

/** Rollouts of the real `hud` package's tasks, on a real denv server that is attached to their environment. */
describe('a HUD environment that somebody serves', () => {
  const server = new ServerProcess();
  const hud = new HudProcess();
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
    await server.start();
    await hud.start('text_env.py');
  }, 60_000);

  afterAll(async () => {
    await hud.end();
    await server.end();
    await env.close();
  }, 60_000);

  async function run(task: HudTask, answer: string) {
    const environment = { address: hud.address, target: 'tcp' };
    const spec = { task: { prompt: undefined, verifier: undefined, environment, hud: task } };
    const policies = { checkpoints: 'never', onOutcomeUnknown: 'report' } as const;
    return env.run(
      { ...spec, ...policies },
      { server: server.client, model: new FakeModel(() => ({ text: answer })) },
    );
  }

  test.each([
    [{ id: 'add', args: { a: 2, b: 3 } }, '5', 1, {}],
    [{ id: 'add', args: { a: 2, b: 3 } }, '6', 0, {}],
    [{ id: 'add_detailed', args: { a: 2 } }, 'It is 3.', 0.8, { value: 1, format: 0 }],
    [{ id: 'chat_prompt' }, '42', 1, {}],
    [{ id: 'penalty' }, 'Hello!', -0.5, { silence: 1, spoke: 1 }],
    [{ id: 'nan_info' }, 'Café', 1, {}],
    [{ id: 'add', args: { a: 1 }, verifier: { id: 'recheck' } }, '2', 1, {}],
    [{ id: 'add', args: { a: 1 }, verifier: { id: 'recheck' } }, '3', 0, {}],
  ])('%j answered by %j is worth %d', async (task, answer, reward, rewards) => {
    const { result } = await run(task, answer);

    expect(result).toMatchObject({ outcome: 'scored', reward, rewards, failure: null });
    expect(result.attempts).toHaveLength(1);
  });

  test.each([
    [{ id: 'nope' }, 'task', 'no task "nope"'],
    [{ id: 'add', args: { a: 'x' } }, 'task', '`a`'],
    [{ id: 'add', args: { a: 1 }, env: 'sums' }, 'task', 'sums'],
    [{ id: 'add', args: { a: 1 }, capabilities: ['arm'] }, 'task', 'arm'],
    [{ id: 'broken_start' }, 'task', 'the set-up exploded'],
    [{ id: 'slow_start', startTimeoutS: 0.5 }, 'task', 'had no end in 0.5 s'],
    [{ id: 'broken_grader' }, 'verifier', 'the grader exploded'],
    [{ id: 'missing_key' }, 'verifier', 'solution'],
    [{ id: 'bad_grade' }, 'verifier', 'score'],
    [{ id: 'slow_grade', gradeTimeoutS: 0.5 }, 'verifier', 'had no end in 0.5 s'],
    [{ id: 'is_error' }, 'verifier', 'the judge could not be reached'],
  ])('%j is unscored, class %s, and says why', async (task, klass, why) => {
    const { result } = await run(task, '2');

    expect(result).toMatchObject({ outcome: 'unscored', reward: null, failure: { class: klass } });
    expect(result.failure?.message).toContain(why);
    expect(result.attempts).toHaveLength(1);
  });

  test('a prompt of 10 MiB reaches the model, and no history', async () => {
    const { result, input, fakes } = await run({ id: 'big_prompt', args: { mib: 10 } }, '5');

    expect(result).toMatchObject({ outcome: 'scored', reward: 1 });
    expect(JSON.stringify(fakes.model.requests[0]?.messages).length).toBeGreaterThan(10 * mib);
    const handle = env.temporal.client.workflow.getHandle(input.rolloutId);
    expect(JSON.stringify(await handle.fetchHistory()).length).toBeLessThan(200_000);
  });
});
