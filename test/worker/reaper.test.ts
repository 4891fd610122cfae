import { reapOnce, startReaper } from '../../worker/reaper';
import type { OpenWork } from '../../retention/open-work';
import { FakeDenv } from '../fakes/fake-denv';

const owner = 'own_1/ns_1';
const later = new Date(Date.now() + 3_600_000);

async function bench(
  states: Record<string, string>,
  more: Partial<Pick<OpenWork, 'namespaceId' | 'stateOf'>> = {},
) {
  const denv = new FakeDenv();
  const make = (key: string, labels: Record<string, string>) =>
    denv.client.createSandbox({ image: 'host', labels }, { key });
  for (const rolloutId of Object.keys(states)) await make(rolloutId, { owner, rolloutId });
  await make('other', { owner: 'own_2/ns_1', rolloutId: 'gone' });
  await make('bare', { owner });
  const asked: string[] = [];
  const rollouts: Pick<OpenWork, 'namespaceId' | 'stateOf'> = {
    namespaceId: () => Promise.resolve('ns_1'),
    stateOf: (rolloutId) => {
      asked.push(rolloutId);
      return Promise.resolve(states[rolloutId] ?? 'GONE');
    },
    ...more,
  };
  return { denv, asked, parts: { denv: denv.client, rollouts, owner, say: () => undefined } };
}

describe('reapOnce', () => {
  test('deletes what closed or unknown rollouts left, and nothing else', async () => {
    const { denv, parts } = await bench({
      running: 'RUNNING',
      done: 'COMPLETED',
      killed: 'TERMINATED',
      unknown: 'GONE',
    });

    const deleted = await reapOnce(parts, later);

    expect(deleted).toHaveLength(3);
    const left = [...denv.sandboxes.values()].map(({ labels }) => labels.rolloutId ?? 'none');
    expect(left.sort()).toEqual(['gone', 'none', 'running']);
  });

  test('leaves a sandbox whose lease runs, and asks nobody about it', async () => {
    const { denv, asked, parts } = await bench({ killed: 'TERMINATED' });

    expect(await reapOnce(parts, new Date(Date.now() - 60_000))).toEqual([]);
    expect(asked).toEqual([]);
    expect(denv.deleted).toEqual([]);
  });

  test('deletes nothing for a namespace that is not this owner’s', async () => {
    const other = { namespaceId: () => Promise.resolve('ns_2') };
    const { denv, parts } = await bench({ killed: 'GONE' }, other);

    expect(await reapOnce(parts, later)).toEqual([]);
    expect(denv.deleted).toEqual([]);
  });

  test.each<[string, Partial<Pick<OpenWork, 'namespaceId' | 'stateOf'>>]>([
    ['about the namespace', { namespaceId: () => Promise.reject(new Error('away')) }],
    ['about a rollout', { stateOf: () => Promise.reject(new Error('away')) }],
  ])('deletes nothing when the answer %s fails', async (_title, failing) => {
    const { denv, parts } = await bench({ killed: 'TERMINATED' }, failing);

    await expect(reapOnce(parts, later)).rejects.toThrow('away');
    expect(denv.deleted).toEqual([]);
  });
});

describe('startReaper', () => {
  test('goes on after a round that failed, and stops when it is told', async () => {
    const { parts } = await bench({});
    const said: string[] = [];
    let rounds = 0;
    let done: () => void = () => undefined;
    const third = new Promise<void>((resolve) => (done = resolve));
    parts.denv.listSandboxes = () => {
      rounds += 1;
      if (rounds === 3) done();
      return Promise.reject(new Error('away'));
    };

    const reaper = startReaper({ ...parts, say: (message) => said.push(message) }, 5);
    await third;
    await reaper.stop();

    const after = rounds;
    expect(said).toHaveLength(after);
    expect(said[0]).toBe('the reaper could not look, and deletes nothing');
  });
});
