import type { Rollouts } from '../../../client/api/connect';
import { diffRollouts } from '../../../client/api/diff';
import { diffLines } from '../../../client/reports/diff';
import type { VersionDiff } from '../../../contracts/denv';
import { DenvError } from '../../../denv/errors';
import { forkWorld, recordRollout } from './fork-world';
import type { ForkWorld } from './fork-world';

describe('comparing two rollouts', () => {
  let world: ForkWorld;
  beforeEach(async () => {
    world = await forkWorld();
  });
  afterEach(() => world.close());

  const a = 'rollout/b/t/0';
  const b = 'rollout/b/t/1';

  const files: VersionDiff = {
    files: [
      { path: '/workspace/a', change: 'changed', bytes: 3 },
      { path: '/workspace/b', change: 'added', bytes: 4 },
      { path: '/workspace/c', change: 'removed', bytes: 5 },
    ],
    more: 2,
  };

  const compare = (denv: object) =>
    diffRollouts({ ...world.rollouts, denv } as unknown as Rollouts, [a, b]); // no other call is made

  async function recordBoth(said: [string[], string[]]) {
    const first = await recordRollout(world, { said: said[0], reward: 0 });
    await recordRollout(world, { rolloutId: b, said: said[1], reward: 1 });
    return first;
  }

  it('finds the first thing that differs, and what came of each', async () => {
    await recordBoth([
      ['ls', 'cat a', 'done'],
      ['ls', 'rm a', 'done'],
    ]);

    const diff = await compare({});

    expect(diff).toMatchObject({
      shared: 4,
      parting: { step: 2, entries: [{ type: 'reply' }, { type: 'reply' }] },
      sides: [
        { reward: 0, steps: 3 },
        { reward: 1, steps: 3 },
      ],
    });
    expect(
      diffLines({ ...diff, files: { versions: ['ver_2', 'ver_3'], diff: files, why: null } }, {}),
    ).toEqual([
      'a  rollout/b/t/0',
      'b  rollout/b/t/1',
      '',
      'They part at step 2, after 4 common entries.',
      'a',
      '  step 2',
      '    calls bash {"command":"cat a"}',
      'b',
      '  step 2',
      '    calls bash {"command":"rm a"}',
      '',
      '            a             b',
      'outcome     scored        scored',
      'reward      0             1',
      '  speed     1             1',
      'stop        done          done',
      'model       openai/small  openai/small',
      'steps       3             3',
      'tool calls  2             2',
      'tokens      10 + 5        10 + 5',
      'cost, $     -             -',
      'worked, s   1.5           1.5',
      '',
      'Files, from ver_2 to ver_3:',
      '  ~ /workspace/a  3 bytes',
      '  + /workspace/b  4 bytes',
      '  - /workspace/c  5 bytes',
      '  and 2 more',
    ]);
  });

  it('takes no time, cost or id of a call for a difference', async () => {
    await recordBoth([
      ['ls', 'done'],
      ['ls', 'done'],
    ]);

    expect(await compare({})).toMatchObject({
      parting: null,
      shared: 5,
      files: { versions: ['ver_2', 'ver_2'], diff: { files: [] } },
    });
  });

  it('says when one has nothing more', async () => {
    const { result } = await recordBoth([
      ['ls', 'done'],
      ['ls', 'pwd', 'done'],
    ]);
    expect(result.steps).toBe(2);

    const { parting } = await compare({});

    expect(parting).toMatchObject({ step: 2, entries: [{ type: 'reply' }, { type: 'reply' }] });
  });

  it('names the version that has expired', async () => {
    await recordBoth([
      ['ls', 'done'],
      ['pwd', 'done'],
    ]);
    const row = await world.ledger.rollout(b);
    if (!row?.result) throw new Error('no result');
    const judged = row.result.verdicts.map((verdict) => ({ ...verdict, version: 'ver_9' }));
    await world.ledger.recordResult({
      ...row.result,
      rolloutId: 'rollout/b/t/2',
      verdicts: judged,
    });
    await world.blobs.putIfAbsent(
      'inputs/rollout/b/t/2',
      world.blobs.named.get(`inputs/${b}`) ?? Buffer.alloc(0),
    );
    const gone = (id: string) => Promise.reject(new DenvError('version_not_found', `no ${id}`));
    const denv = {
      diffVersions: () => gone('ver_9'),
      getVersion: (id: string) => (id === 'ver_9' ? gone(id) : Promise.resolve({ id })),
    };

    const { files: compared } = await diffRollouts(
      { ...world.rollouts, denv } as unknown as Rollouts,
      [a, 'rollout/b/t/2'],
    );

    expect(compared).toEqual({
      versions: ['ver_2', 'ver_9'],
      diff: null,
      why: 'ver_9 has expired',
    });
  });
});
