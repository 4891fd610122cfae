import { exportTraining } from '../../../client/training/export';
import { parseConversations, TrainingLine } from '../../../client/training/schema';
import type { Conversation, TrainingNode } from '../../../client/training/schema';
import { appendEntries, readEntries } from '../../../rollouts/trajectory/chain';
import type { TrajectoryEntry } from '../../../contracts/trajectory';
import { declaredRollout, rolloutResult } from '../../stores/results';
import { forkWorld, recordRollout, replyEntry } from '../api/fork-world';
import type { ForkWorld } from '../api/fork-world';

describe('an export for training', () => {
  let world: ForkWorld;
  beforeEach(async () => {
    world = await forkWorld();
  });
  afterEach(() => world.close());

  const root = 'rollout/b/t/0';

  async function exported(id: string) {
    const { lines, ...counts } = await exportTraining(world, id);
    const text = lines.map((line) => `${JSON.stringify(TrainingLine.parse(line))}\n`).join('');
    const conversations = parseConversations(text);
    const of = (leaf: string): Conversation => {
      const found = conversations.find((one) => one.leaf.leaf === leaf);
      if (!found) throw new Error(`no leaf ${leaf}`);
      return found;
    };
    return { lines, counts, of, conversations };
  }

  async function growTree() {
    const { heads } = await recordRollout(world, { reward: 0 });
    for (const [k, reward] of [1, 0.5, null].entries()) {
      await recordRollout(world, {
        rolloutId: `${root}/x1.${k + 1}`,
        reward,
        said: [`try ${k}`, 'done'],
        input: {
          from: {
            parentRolloutId: root,
            step: 2,
            version: 'ver_2',
            trajectory: heads[1] ?? '',
            spent: { tokens: 0, costUsd: 0, workedS: 0 },
          },
        },
      });
    }
  }

  it('has every conversation whole, and what they share once', async () => {
    await growTree();

    const { lines, counts, of } = await exported(root);

    expect(counts).toEqual({ nodes: 2 + 2 + 3 * 2, leaves: 4, running: 0 });
    for (const id of [root, ...[1, 2, 3].map((k) => `${root}/x1.${k}`)]) {
      const result = (await world.ledger.rollout(id))?.result;
      const said = textsOf(await readEntries(world.documents, result?.trajectory ?? ''));
      expect(of(id).messages.map(textOf)).toEqual(said);
    }
    const texts = lines.flatMap((line) =>
      'node' in line && 'messages' in line ? line.messages : [],
    );
    expect(texts.map(textOf).filter((text) => text === 'saw ls')).toHaveLength(1);
  });

  it('values nodes by their leaves, and compares siblings', async () => {
    await growTree();

    const { of } = await exported(root);

    const [, step1, own] = of(root).nodes;
    expect(step1).toMatchObject({ step: 1, visits: 4, value: 0.5, advantage: 0 });
    expect(own).toMatchObject({ step: 2, visits: 1, value: 0, advantage: -0.5 });
    expect(of(`${root}/x1.1`).nodes[2]).toMatchObject({ value: 1, advantage: 0.5 });
    expect(of(`${root}/x1.3`).nodes[2]).toMatchObject({ value: null, advantage: null, visits: 1 });
    expect(of(`${root}/x1.3`).leaf).toMatchObject({ reward: null, from: { leaf: root, step: 2 } });
  });

  it('joins the repeats of a task in a batch, but not two tasks that begin alike', async () => {
    await world.ledger.declareBatch(
      { batchId: 'b', taskset: 's', declared: 2, rolloutsRef: 'sha256:00', createdAt: 'now' },
      [],
    );
    await recordRollout(world, { reward: 0, said: ['a', 'done'] });
    await recordRollout(world, { rolloutId: 'rollout/b/t/1', reward: 1, said: ['b', 'done'] });
    const { result } = await recordRollout(world, {
      rolloutId: 'rollout/b/x/0',
      said: ['a', 'done'],
    });
    await world.ledger.declareRollouts([
      declaredRollout({ rolloutId: 'rollout/b/u/0', taskId: 'u' }),
    ]);
    await world.ledger.recordResult({ ...result, rolloutId: 'rollout/b/u/0', taskId: 'u' });

    const { of } = await exported('b');

    const [first, second, other] = ['t/0', 't/1', 'u/0'].map((id) => of(`rollout/b/${id}`).nodes);
    expect(second?.[0]).toBe(first?.[0]);
    expect(second?.[1]).toMatchObject({ value: 1 });
    expect(other?.[0]?.node).not.toBe(first?.[0]?.node);
    expect(other?.[0]?.messages).toEqual(first?.[0]?.messages);
  });

  it('leaves out what still runs, and says how many', async () => {
    await recordRollout(world);
    await world.ledger.declareRollouts([
      declaredRollout({ rolloutId: `${root}/x1.1`, parentRolloutId: root, parentStep: 1 }),
    ]);

    expect((await exported(root)).counts).toMatchObject({ leaves: 1, running: 1 });
  });

  it('refuses what is no training file', () => {
    const leaf = {
      leaf: 'a',
      node: 'b',
      taskId: 't',
      reward: 1,
      rewards: {},
      stopReason: null,
      from: null,
      tokenIds: 'none',
    };

    expect(() => parseConversations(JSON.stringify(leaf))).toThrow(
      'node b is named before it comes',
    );
    expect(() => parseConversations('{"leaf": 1}')).toThrow('Invalid');
  });

  describe('with token ids', () => {
    const prompt = [1, 2, 3];
    const step = (n: number, said: string, promptTokenIds: number[], tokenIds: number[]) =>
      [
        replyEntry(n, said, { promptTokenIds, tokenIds, logprobs: tokenIds.map(() => -1) }),
      ] as TrajectoryEntry[];

    async function record(rolloutId: string, head: string, parentRolloutId: string | null) {
      await world.ledger.declareRollouts([
        declaredRollout({ rolloutId, parentRolloutId, parentStep: parentRolloutId ? 2 : null }),
      ]);
      await world.ledger.recordResult(
        rolloutResult({ rolloutId, trajectory: head, checkpoints: [] }),
      );
    }

    it('has each sequence whole, and shared ids once', async () => {
      const { documents } = world;
      const opening = await appendEntries(documents, '', [{ type: 'prompt', text: 'Do it.' }]);
      const one = await appendEntries(documents, opening, step(1, 'ls', prompt, [10, 11]));
      // What came of the call, 20 and 21, stands in the prompt of each second reply.
      const seen = [...prompt, 10, 11, 20, 21];
      await record(root, await appendEntries(documents, one, step(2, 'done', seen, [30])), null);
      await record(
        `${root}/x1.1`,
        await appendEntries(documents, one, step(2, 'done', [...seen, 22], [31])),
        root,
      );

      const { lines, of } = await exported(root);

      expect(idsOf(of(root))).toEqual([1, 2, 3, 10, 11, 20, 21, 30]);
      expect(idsOf(of(`${root}/x1.1`))).toEqual([1, 2, 3, 10, 11, 20, 21, 22, 31]);
      const all = lines.flatMap((line) => ('tokens' in line ? (line.tokens ?? []) : []));
      expect(all.flatMap(({ ids }) => ids).toSorted((a, b) => a - b)).toEqual([
        1, 2, 3, 10, 11, 20, 21, 22, 30, 31,
      ]);
      expect(
        all
          .filter(({ of: whose }) => whose === 'answer')
          .map(({ ids, logprobs }) => [ids, logprobs]),
      ).toEqual([
        [
          [10, 11],
          [-1, -1],
        ],
        [[30], [-1]],
        [[31], [-1]],
      ]);
      expect(of(root).leaf.tokenIds).toBe('whole');
    });

    it('says where ids do not go on from those before', async () => {
      const { documents } = world;
      const one = await appendEntries(documents, '', step(1, 'ls', prompt, [10]));
      await record(
        root,
        await appendEntries(documents, one, step(2, 'done', [1, 9, 9], [30])),
        null,
      );

      const { of } = await exported(root);

      expect(of(root).leaf.tokenIds).toBe('broken');
      expect(idsOf(of(root))).toEqual([1, 9, 9, 30]);
    });

    it('has none where the endpoint gave none, and the texts all the same', async () => {
      await recordRollout(world);

      const { of, lines } = await exported(root);

      expect(of(root).leaf.tokenIds).toBe('none');
      expect(lines.some((line) => 'tokens' in line)).toBe(false);
    });
  });
});

const idsOf = ({ tokens }: Conversation): number[] => tokens.flatMap(({ ids }) => ids);

function textOf(message: TrainingNode['messages'][number]): string {
  if (message.role === 'system') return message.content;
  if (message.role === 'assistant') {
    return (
      message.content + message.toolCalls.map((call) => JSON.stringify(call.arguments)).join('')
    );
  }
  return message.content.map((part) => (part.type === 'text' ? part.text : part.ref)).join('');
}

function textsOf(entries: TrajectoryEntry[]): string[] {
  return entries.flatMap((entry) => {
    if (entry.type === 'reply') {
      const { text, toolCalls } = entry.reply;
      return [text + toolCalls.map((call) => JSON.stringify(call.arguments)).join('')];
    }
    if (entry.type === 'observation') {
      return entry.observation.content.map((part) => (part.type === 'text' ? part.text : part.ref));
    }
    return 'text' in entry ? [entry.text] : [];
  });
}
