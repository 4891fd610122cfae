import { planRegrade } from '../../../client/api/regrade-plan';
import type { RolloutResult } from '../../../contracts/rollout';
import type { Task } from '../../../contracts/task';
import { PackedTask } from '../../../contracts/task';
import { openLedger } from '../../../stores/sqlite/ledger';
import type { Ledger } from '../../../stores/ledger';
import { MemoryBlobs } from '../../fakes/memory-blobs';
import { declaredRollout, rolloutResult } from '../../stores/results';

describe('planning to judge again', () => {
  let ledger: Ledger;
  let blobs: MemoryBlobs;
  beforeEach(async () => {
    ledger = await openLedger(':memory:');
    blobs = new MemoryBlobs();
  });
  afterEach(() => ledger.close());

  const put = async (value: unknown) => (await blobs.put(Buffer.from(JSON.stringify(value)))).ref;
  const verifier = { image: 'host', command: ['sh', '/v.sh'] };
  const idOf = (n: number) => `rollout/b/t/${n}`;

  /** A batch of one rollout a result, each with a task of its own; null has not ended. */
  async function batch(
    rollouts: { task?: Partial<Task>; result: Partial<RolloutResult> | null }[],
  ): Promise<string[]> {
    const inputs = [];
    for (const [index, { task = {} }] of rollouts.entries()) {
      const taskRef = await put({
        id: 't',
        taskset: 's',
        digest: `d${index}`,
        task: { id: 't', prompt: 'p', environment: { image: 'host' }, verifier, ...task },
        environmentFiles: [],
        verifierFiles: [],
      });
      inputs.push({
        rolloutId: idOf(index),
        batchId: 'b',
        taskId: 't',
        index,
        taskRef,
        identity: 'i',
        owner: 'o',
        agent: 'nop',
        model: { name: '', settings: {}, price: null },
        limits: {},
        checkpoints: 'step',
        onOutcomeUnknown: 'restore',
      });
    }
    const rolloutsRef = await put(inputs);
    const declared = inputs.map(({ rolloutId, index }) => declaredRollout({ rolloutId, index }));
    const row = { batchId: 'b', taskset: 's', declared: declared.length, rolloutsRef };
    await ledger.declareBatch({ ...row, createdAt: 'now' }, declared);
    for (const [index, { result }] of rollouts.entries()) {
      if (result) await ledger.recordResult(rolloutResult({ rolloutId: idOf(index), ...result }));
    }
    return inputs.map(({ taskRef }) => taskRef);
  }

  const plan = (over: Partial<Parameters<typeof planRegrade>[1]> = {}) =>
    planRegrade({ ledger, blobs }, { target: 'b', onlyUnscored: false, verifier: null, ...over });
  const unscored = { outcome: 'unscored' as const, reward: null };
  const [own] = rolloutResult().verdicts;

  it('names for each what its last verdict judged, with its own task', async () => {
    const again = { ...own!, key: 'again', version: 'ver_9', verdict: 'none' as const };
    const start = { ...own!, key: 'start', version: 'ver_0', of: 'start' as const };
    const refs = await batch([{ result: {} }, { result: { verdicts: [own!, again, start] } }]);

    expect(await plan()).toEqual({
      batchId: 'b',
      judged: [
        { rolloutId: idOf(0), before: 0.5, version: 'ver_2', taskRef: refs[0] },
        { rolloutId: idOf(1), before: 0.5, version: 'ver_9', taskRef: refs[1] },
      ],
      left: [],
    });
  });

  it('names one rollout by its own id', async () => {
    await batch([{ result: {} }, { result: {} }]);

    const { batchId, judged } = await plan({ target: idOf(1) });

    expect({ batchId, ids: judged.map(({ rolloutId }) => rolloutId) }).toEqual({
      batchId: 'b',
      ids: [idOf(1)],
    });
  });

  it('only the unscored: those without a reward by any verdict', async () => {
    await batch([{ result: {} }, { result: unscored }, { result: unscored }]);
    await ledger.recordRegrade({
      regradeId: 'g1',
      rolloutId: idOf(2),
      version: 'ver_2',
      verdict: own!,
      reward: 1,
      rewards: {},
      why: null,
      verifierDigest: 'd',
      at: 'now',
    });

    const { judged } = await plan({ onlyUnscored: true });

    expect(judged.map(({ rolloutId, before }) => [rolloutId, before])).toEqual([[idOf(1), null]]);
    const all = await plan();
    expect(all.judged.map(({ before }) => before)).toEqual([0.5, null, 1]);
  });

  it('names what cannot be judged again, and why', async () => {
    await batch([
      { result: null },
      { result: {}, task: { verifier: undefined, hud: { id: 'add' } } },
      {
        result: {},
        task: {
          verifier: undefined,
          grading: { graders: [{ kind: 'bash', name: 'tests', command: 'true' }] },
        },
      },
      { result: { ...unscored, verdicts: [] } },
      { result: {}, task: { hud: { id: 'add' } } },
    ]);

    const { judged, left } = await plan();

    expect(judged.map(({ rolloutId }) => rolloutId)).toEqual([idOf(4)]);
    expect(left.map(({ why, missing }) => [why, missing])).toEqual([
      ['it has not ended', false],
      ['its reward is the grade of its HUD environment, which cannot be asked again', false],
      ['no verifier gave its reward, only graders that ran when it ended', false],
      [
        `it has no final snapshot: it ended before a verifier judged one; see: rollouts show ${idOf(3)}`,
        true,
      ],
    ]);
  });

  it('with another verifier, has the tasks judge by that', async () => {
    const refs = await batch([{ result: {} }, { result: {} }]);
    const fixed = { image: 'host', command: ['fixed'] };

    const { judged } = await plan({ verifier: { verifier: fixed, files: [] } });

    const tasks = judged.map(({ taskRef }) =>
      PackedTask.parse(JSON.parse(blobs.content.get(taskRef)?.toString() ?? '')),
    );
    expect(tasks.map(({ task }) => task.verifier)).toEqual([fixed, fixed]);
    expect(judged.some(({ taskRef }) => refs.includes(taskRef))).toBe(false);
  });

  it('refuses a target that nobody knows', async () => {
    await expect(plan({ target: 'none' })).rejects.toThrow('there is no batch or rollout none');
  });
});
