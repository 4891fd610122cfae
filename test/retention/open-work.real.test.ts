import { openWork } from '../../retention/open-work';
import { until } from '../e2e/until';
import { openTemporal } from '../temporal-env';
import type { TemporalEnv } from '../temporal-env';

describe('what is under way, as Temporal tells it', () => {
  let env: TemporalEnv;

  beforeAll(async () => {
    env = await openTemporal();
  });

  afterAll(() => env.close());

  /** Nobody works on it: it runs until it is ended. */
  const start = (workflow: string, workflowId: string, input: object) =>
    env.temporal.client.workflow.start(workflow, {
      workflowId,
      taskQueue: 'nobody',
      args: [input],
    });

  test('explorations by their roots, until they end', async () => {
    const work = openWork(env.temporal.client);
    const root = { rolloutId: 'rollout/b/t/0' };
    const handle = await start('explore', 'explore/1', { exploreId: 'explore/1', root });

    await until('it is listed', async () => (await work.explorations()).length === 1);
    expect(await work.explorations()).toEqual([
      { exploreId: 'explore/1', rootId: 'rollout/b/t/0' },
    ]);
    await handle.terminate();
    await until('it is not', async () => (await work.explorations()).length === 0);
  });

  test('versions that regrades judge', async () => {
    const work = openWork(env.temporal.client);
    const of = (...versions: string[]) => ({ rollouts: versions.map((version) => ({ version })) });
    await start('regrade', 'regrade/b/1', of('ver_1', 'ver_2'));
    await start('regrade', 'regrade/b/2', of('ver_2', 'ver_3'));

    await until('both are listed', async () => (await work.regraded()).size === 3);
    expect(await work.regraded()).toEqual(new Set(['ver_1', 'ver_2', 'ver_3']));
  });

  test('what it cannot read is no answer', async () => {
    await start('explore', 'explore/other', { of: 'another version of this code' });
    const work = openWork(env.temporal.client);

    await until('it is refused', async () => {
      const asked = work.explorations().then(
        () => '',
        (error: unknown) => String(error),
      );
      return (await asked).includes('exploreId');
    });
  });
});
