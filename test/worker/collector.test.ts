import type { Version } from '../../contracts/denv';
import type { RolloutInput, RolloutResult } from '../../contracts/rollout';
import { DenvError } from '../../denv/errors';
import { openLedger } from '../../stores/sqlite/ledger';
import type { Ledger } from '../../stores/ledger';
import { planCollection } from '../../retention/plan';
import { collectOnce, startCollector } from '../../worker/collector';
import type { CollectorParts } from '../../worker/collector';
import { createKeepPolicies } from '../../retention/keep-policies';
import type { OpenWork } from '../../retention/open-work';
import { measureInTurn, unmeasured } from '../../retention/sizes';
import { inputName } from '../../rollouts/inputs';
import { MemoryBlobs } from '../fakes/memory-blobs';
import { declaredRollout, rolloutResult } from '../stores/results';
import { at, dayMs, hourMs, now, owner, versionOf } from '../retention/versions';

const root = 'rollout/b/t/0';

describe('the collector', () => {
  let ledger: Ledger;
  let blobs: MemoryBlobs;
  beforeEach(async () => {
    ledger = await openLedger(':memory:');
    blobs = new MemoryBlobs();
  });
  afterEach(() => ledger.close());

  /** A rollout that ended an hour ago, unless it is said to be open. */
  async function rollout(
    rolloutId: string,
    more: Partial<RolloutResult> & {
      keep?: RolloutInput['keep'];
      open?: boolean;
      parent?: string;
    } = {},
  ): Promise<void> {
    const { keep, open, parent = null, ...over } = more;
    await blobs.putIfAbsent(inputName(rolloutId), Buffer.from(JSON.stringify({ rolloutId, keep })));
    await ledger.declareRollouts([
      declaredRollout({ rolloutId, parentRolloutId: parent, parentStep: parent ? 1 : null }),
    ]);
    if (open) return;
    await ledger.recordResult(
      rolloutResult({ rolloutId, checkpoints: [], verdicts: [], endedAt: at(hourMs), ...over }),
    );
  }

  const of = (rolloutId: string, id: string, over: Partial<Version> = {}): Version =>
    versionOf(id, { labels: { owner, rolloutId }, ...over });

  function bench(versions: Version[], more: Partial<OpenWork> = {}) {
    const removed: string[] = [];
    const retained: [string, number][] = [];
    const said: [string, Record<string, unknown>][] = [];
    const work: OpenWork = {
      namespaceId: () => Promise.resolve('ns_1'),
      stateOf: () => Promise.resolve('COMPLETED'),
      explorations: () => Promise.resolve([]),
      regraded: () => Promise.resolve(new Set<string>()),
      ...more,
    };
    const parts: CollectorParts = {
      denv: {
        listVersions: () => Promise.resolve({ versions }),
        deleteVersion: (id) => {
          removed.push(id);
          return Promise.resolve();
        },
        retainVersion: (id, { retentionS }) => {
          retained.push([id, retentionS]);
          return Promise.resolve(versionOf(id));
        },
      },
      ledger,
      work,
      keeps: createKeepPolicies({ blobs, ledger }),
      owner,
      rules: { days: 7, budgetBytes: null },
      measure: unmeasured,
      say: (message, fields) => said.push([message, fields]),
    };
    return { parts, removed, retained, said };
  }
  const collect = (parts: CollectorParts) => collectOnce(parts, new Date(now));
  const verdict = (version: string) => ({ ...rolloutResult().verdicts[0]!, version });

  it('removes what no policy keeps, and says so', async () => {
    await rollout(root, { keep: 'final', verdicts: [verdict('final')] });
    const { parts, removed, said } = bench([
      of(root, 'step-1'),
      of(root, 'step-2', { createdAt: at(2 * hourMs) }),
      of(root, 'final'),
    ]);

    expect(await collect(parts)).toEqual(['step-2', 'step-1']);
    expect(removed).toEqual(['step-2', 'step-1']);
    expect(said).toEqual([
      [
        'removed versions that nothing keeps',
        {
          removed: 2,
          of: 3,
          bytes: 0,
          why: { 'nothing keeps it (final)': 2 },
          inUse: [],
          left: 0,
        },
      ],
    ]);
  });

  it('leaves the checkpoints of a rollout of which nobody said what to keep for a day', async () => {
    await rollout(root);
    await rollout('rollout/b/t/1', { endedAt: at(25 * hourMs) });
    const { parts } = bench([of(root, 'fresh'), of('rollout/b/t/1', 'stale')]);

    expect(await collect(parts)).toEqual(['stale']);
  });

  it('takes a rollout’s policy from the list of its batch too', async () => {
    const inputs = [
      { rolloutId: root, keep: 'all' },
      { rolloutId: 'rollout/b/t/1', keep: 'none' },
    ];
    const { ref } = await blobs.put(Buffer.from(JSON.stringify(inputs)));
    await ledger.declareBatch(
      { batchId: 'b', taskset: 's', declared: 2, rolloutsRef: ref, createdAt: at(0) },
      [declaredRollout(), declaredRollout({ rolloutId: 'rollout/b/t/1', index: 1 })],
    );
    for (const rolloutId of [root, 'rollout/b/t/1']) {
      await ledger.recordResult(rolloutResult({ rolloutId, verdicts: [verdict(rolloutId)] }));
    }
    const { parts } = bench([of(root, 'kept'), of('rollout/b/t/1', 'rollout/b/t/1')]);

    expect(await collect(parts)).toEqual(['rollout/b/t/1']);
  });

  it('leaves what nobody knows how to keep, and does the rest', async () => {
    await rollout(root, { keep: 'none' });
    await ledger.recordResult(rolloutResult({ rolloutId: 'rollout/b/t/1' }));
    const { parts } = bench([of(root, 'known'), of('rollout/b/t/1', 'no-input')]);

    expect(await collect(parts)).toEqual(['known']);
  });

  describe('never removes what something at work refers to', () => {
    const open = (...running: string[]): Partial<OpenWork> => ({
      stateOf: (id) => Promise.resolve(running.includes(id) ? 'RUNNING' : 'COMPLETED'),
    });

    it('a rollout that runs', async () => {
      await rollout(root, { keep: 'none', open: true });

      expect(await collect(bench([of(root, 'v')], open(root)).parts)).toEqual([]);
      expect(await collect(bench([of(root, 'v')], open()).parts)).toEqual(['v']);
    });

    it('a continuation that runs: its parent’s versions, and those of every ancestor', async () => {
      const [child, grandchild] = [`${root}/e1.1`, `${root}/e1.1/e2.1`];
      await rollout(root, { keep: 'none' });
      await rollout(child, { keep: 'none', parent: root });
      await rollout(grandchild, { keep: 'none', parent: child, open: true });
      const versions = [of(root, 'of-root'), of(child, 'of-child')];

      expect(await collect(bench(versions, open(grandchild)).parts)).toEqual([]);
      expect(await collect(bench(versions, open()).parts)).toEqual(['of-root', 'of-child']);
    });

    it('an exploration that runs: its whole tree', async () => {
      const child = `${root}/x1.1`;
      await rollout('rollout/b/t/1', { keep: 'none' });
      await rollout(root, { keep: 'none', parent: 'rollout/b/t/1' });
      await rollout(child, { keep: 'none', parent: root });
      const versions = [
        of('rollout/b/t/1', 'of-origin'),
        of(root, 'of-root'),
        of(child, 'of-child'),
      ];
      const explorations = () => Promise.resolve([{ exploreId: 'explore/1', rootId: root }]);

      expect(await collect(bench(versions, { explorations }).parts)).toEqual([]);
      expect(await collect(bench(versions).parts)).toHaveLength(3);
    });

    it('a regrade under way, and a sandbox that lives', async () => {
      await rollout(root, { keep: 'none' });
      const versions = [of(root, 'judged'), of(root, 'forked', { usedBy: ['sb_9'] })];
      const regraded = () => Promise.resolve(new Set(['judged']));

      expect(await collect(bench(versions, { regraded }).parts)).toEqual([]);
    });

    it('a verdict that was asked for later, also where none is kept', async () => {
      await rollout(root, { keep: 'none', verdicts: [verdict('final')] });
      await ledger.recordRegrade({
        regradeId: 'g1',
        rolloutId: root,
        version: 'final',
        verdict: verdict('final'),
        reward: 1,
        rewards: {},
        why: null,
        verifierDigest: 'd',
        at: at(0),
      });

      expect(await collect(bench([of(root, 'final'), of(root, 'step-1')]).parts)).toEqual([
        'step-1',
      ]);
    });

    it('a rollout that keeps all, with a checkpoint of its parent’s', async () => {
      const [point] = rolloutResult().checkpoints;
      const child = `${root}/e1.1`;
      await rollout(root, { keep: 'final' });
      await rollout(child, {
        keep: 'all',
        parent: root,
        checkpoints: [{ ...point!, version: 'shared' }],
      });
      const versions = [of(root, 'shared'), of(root, 'other'), of(child, 'own')];

      expect(await collect(bench(versions).parts)).toEqual(['other']);
    });

    it('a rollout that nobody knows', async () => {
      await rollout(root, { keep: 'none', open: true });
      const versions = [of(root, 'no-result'), of('rollout/none', 'not-in-ledger')];
      const stateOf = () => Promise.resolve('GONE');

      expect(await collect(bench(versions, { stateOf }).parts)).toEqual([]);
    });

    it('another owner, or nobody', async () => {
      await rollout(root, { keep: 'none' });
      const versions = [
        of(root, 'theirs', { labels: { owner: 'own_2/ns_1', rolloutId: root } }),
        of(root, 'nobody’s', { labels: { owner } }),
      ];

      expect(await collect(bench(versions).parts)).toEqual([]);
    });
  });

  it('keeps all of the best of a group, and of the others the final', async () => {
    const other = 'rollout/b/t/1';
    await rollout(root, { keep: 'best', reward: 0.5, verdicts: [verdict('final-0')] });
    await rollout(other, { keep: 'best', reward: 1, verdicts: [verdict('final-1')] });
    const versions = [
      of(root, 'step-0'),
      of(root, 'final-0'),
      of(other, 'step-1'),
      of(other, 'final-1'),
    ];

    expect(await collect(bench(versions).parts)).toEqual(['step-0']);
    await rollout('rollout/b/t/2', { keep: 'best', open: true });
    expect(await collect(bench(versions).parts)).toEqual([]);
  });

  it('of equals in a group the first is the best; a later verdict may change which', async () => {
    const other = 'rollout/b/t/1';
    await rollout(root, { keep: 'best', reward: 1 });
    await rollout(other, { keep: 'best', reward: 1 });
    const versions = [of(root, 'step-0'), of(other, 'step-1')];
    expect(await collect(bench(versions).parts)).toEqual(['step-1']);

    await ledger.recordRegrade({
      regradeId: 'g1',
      rolloutId: root,
      version: 'final',
      verdict: verdict('final'),
      reward: 0,
      rewards: {},
      why: null,
      verifierDigest: 'd',
      at: at(0),
    });

    expect(await collect(bench(versions).parts)).toEqual(['step-0']);
  });

  it('has the server keep what should stay longer than it would', async () => {
    await rollout(root, { keep: 'final', verdicts: [verdict('final')] });
    const { parts, retained } = bench([of(root, 'final', { retainUntil: at(-hourMs) })]);

    await collect({ ...parts, rules: { days: 2, budgetBytes: null } });

    expect(retained).toEqual([['final', (2 * dayMs - hourMs) / 1000]]);
  });

  it('makes room for the disk budget, and says when it cannot', async () => {
    await rollout(root, { keep: 'all', verdicts: [verdict('final')] });
    const versions = [of(root, 'final'), of(root, 'step-1', { createdAt: at(2 * hourMs) })];
    const { parts, said } = bench(versions);
    const measure = measureInTurn({
      getVersion: (id) => Promise.resolve(versionOf(id, { bytes: 100 })),
    });

    const removed = await collect({ ...parts, measure, rules: { days: 7, budgetBytes: 50 } });

    expect(removed).toEqual(['step-1']);
    expect(said.map(([message]) => message)).toEqual([
      'removed versions that nothing keeps',
      'versions take more than the disk budget, and something keeps each of them',
    ]);
    expect(said[1]?.[1]).toEqual({ overBytes: 50, keptBy: { verdict: 1, policy: 1 } });
  });

  describe('a failed or partial answer removes nothing', () => {
    const failing = () => Promise.reject(new Error('away'));

    it.each<[string, Partial<OpenWork>]>([
      ['the namespace', { namespaceId: failing }],
      ['the state of a rollout', { stateOf: failing }],
      ['explorations', { explorations: failing }],
      ['regrades', { regraded: failing }],
    ])('about %s', async (_title, more) => {
      await rollout(root, { keep: 'none' });
      await rollout('rollout/b/t/1', { keep: 'none', open: true });
      const versions = [of(root, 'v'), of('rollout/b/t/1', 'w')];
      const { parts, removed } = bench(versions, more);

      await expect(collect(parts)).rejects.toThrow('away');
      expect(removed).toEqual([]);
    });

    it('about what a rollout was started with', async () => {
      await rollout(root, { keep: 'none' });
      const { parts, removed } = bench([of(root, 'v')]);

      await expect(collect({ ...parts, keeps: { of: failing } })).rejects.toThrow('away');
      expect(removed).toEqual([]);
    });

    it('about another namespace', async () => {
      await rollout(root, { keep: 'none' });
      const namespaceId = () => Promise.resolve('ns_2');
      const { parts } = bench([of(root, 'v')], { namespaceId });

      expect(await collect(parts)).toEqual([]);
      expect(await planCollection(parts, new Date(now))).toBeNull();
    });
  });

  it('goes on past a version that somebody began to use', async () => {
    await rollout(root, { keep: 'none' });
    const { parts, said } = bench([of(root, 'used'), of(root, 'free')]);
    const { deleteVersion } = parts.denv;
    parts.denv.deleteVersion = (id) =>
      id === 'used' ? Promise.reject(new DenvError('version_in_use', 'in use')) : deleteVersion(id);

    expect(await collect(parts)).toEqual(['free']);
    expect(said[0]?.[1]).toMatchObject({ removed: 1, inUse: ['used'] });
  });

  it('goes on after a round that failed, and stops when it is told', async () => {
    const { parts, said } = bench([]);
    let rounds = 0;
    let third: () => void = () => undefined;
    const reached = new Promise<void>((resolve) => (third = resolve));
    parts.denv.listVersions = () => {
      rounds += 1;
      if (rounds === 3) third();
      return Promise.reject(new Error('away'));
    };

    const collector = startCollector(parts, 5);
    await reached;
    await collector.stop();

    expect(said).toHaveLength(rounds);
    expect(said[0]?.[0]).toBe('the collector could not go on, and removes nothing more');
  });
});

describe('measuring versions', () => {
  it('takes so many at a time: the new ones first, then those of the longest ago', async () => {
    const asked: string[] = [];
    let bytes = 1;
    const measure = measureInTurn(
      {
        getVersion: (id) => {
          asked.push(id);
          return id === 'gone'
            ? Promise.reject(new DenvError('version_not_found', 'gone'))
            : Promise.resolve(versionOf(id, { bytes: bytes++ }));
        },
      },
      2,
    );
    const sizes = async (...ids: string[]) =>
      (await measure(ids.map((id) => versionOf(id)))).map((version) => version.bytes);

    expect(await sizes('a', 'b', 'c')).toEqual([1, 2, null]);
    expect(await sizes('a', 'b', 'c')).toEqual([4, 2, 3]);
    expect(await sizes('a', 'c', 'd')).toEqual([4, 6, 5]);
    expect(await sizes('gone')).toEqual([0]);
    expect(asked).toEqual(['a', 'b', 'c', 'a', 'd', 'c', 'gone']);
  });
});
