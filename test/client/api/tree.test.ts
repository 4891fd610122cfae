import { readTree } from '../../../client/api/tree';
import { treeDot } from '../../../client/reports/tree-dot';
import { treeLines } from '../../../client/reports/tree';
import type { RolloutInput } from '../../../contracts/rollout';
import { forkWorld, recordRollout } from './fork-world';
import type { ForkWorld } from './fork-world';

describe('the tree under a rollout', () => {
  let world: ForkWorld;
  beforeEach(async () => {
    world = await forkWorld();
  });
  afterEach(() => world.close());

  const root = 'rollout/b/t/0';

  async function grow(
    rolloutId: string,
    from: { parent: string; step: number; heads: string[] },
    over: { reward: number | null; said?: string[] },
  ) {
    const continuation: RolloutInput['from'] = {
      parentRolloutId: from.parent,
      step: from.step,
      version: `ver_${from.step}`,
      trajectory: from.heads[from.step - 1] ?? '',
      way: 'snapshot',
      spent: { tokens: 0, costUsd: 0, workedS: 0 },
    };
    const input = { from: continuation };
    return recordRollout(world, { rolloutId, input, said: ['pwd', 'done'], ...over });
  }

  async function growTree() {
    const { heads } = await recordRollout(world, { reward: 0 });
    const at = (step: number) => ({ parent: root, step, heads });
    const first = await grow(`${root}/x1.1`, at(1), { reward: 0.25 });
    await grow(`${root}/x1.2`, at(1), { reward: 1, said: ['say "hi" \\ there', 'done'] });
    await grow(`${root}/x1.10`, at(1), { reward: null });
    await grow(`${root}/x1.3`, at(2), { reward: 0 });
    const below = {
      parent: `${root}/x1.1`,
      step: 2,
      heads: [...heads.slice(0, 1), ...first.heads.slice(1)],
    };
    await grow(`${root}/x1.4`, below, { reward: 0.75, said: ['rm b', 'done'] });
  }

  it('values a step by all that came of it', async () => {
    await growTree();

    const tree = await readTree(world, root);

    expect(tree).toMatchObject({ rolloutId: root, state: 'scored', reward: 0, action: null });
    expect(tree.points).toMatchObject([
      { step: 1, version: 'ver_1', visits: 4, scored: 3, value: (0.25 + 1 + 0.75) / 3 },
      { step: 2, version: 'ver_2', visits: 1, scored: 1, value: 0 },
    ]);
    expect(tree.points[0]?.continuations).toMatchObject([
      { rolloutId: `${root}/x1.1`, points: [{ step: 2, value: 0.75 }] },
      { rolloutId: `${root}/x1.2`, action: 'bash {"command":"say \\"hi\\" \\\\ there"}' },
      { rolloutId: `${root}/x1.10`, state: 'unscored', reward: null },
    ]);
  });

  it('is drawn with a line for each rollout and each step', async () => {
    await growTree();

    expect(treeLines(await readTree(world, root))).toEqual([
      'rollout/b/t/0  reward 0',
      '├─ before step 1  value 0.6667, 4 visits, 3 scored  ver_1',
      '│  ├─ x1.1  reward 0.25  bash {"command":"pwd"}',
      '│  │  └─ before step 2  value 0.75, 1 visit  ver_2',
      '│  │     └─ x1.4  reward 0.75  bash {"command":"rm b"}',
      '│  ├─ x1.2  reward 1  bash {"command":"say \\"hi\\" \\\\ there"}',
      '│  └─ x1.10  unscored  bash {"command":"pwd"}',
      '└─ before step 2  value 0, 1 visit  ver_2',
      '   └─ x1.3  reward 0  bash {"command":"pwd"}',
    ]);
  });

  it('is a graph that Graphviz can read', async () => {
    await growTree();

    const { nodes, edges } = parseDot(treeDot(await readTree(world, root)).join('\n'));

    expect(nodes).toHaveLength(9);
    expect(edges).toHaveLength(8);
    expect(edges.every(({ from, to }) => nodes.includes(from) && nodes.includes(to))).toBe(true);
    expect(edges.map(({ label }) => label)).toContain(
      'bash {\\"command\\":\\"say \\\\\\"hi\\\\\\" \\\\\\\\ there\\"}',
    );
  });

  it('is of one rollout where nothing came of it', async () => {
    await recordRollout(world);

    expect(treeLines(await readTree(world, root))).toEqual(['rollout/b/t/0  reward 0.5']);
  });
});

/** The part of the DOT grammar that is written: statements of a digraph, with attribute lists. Throws at anything else. */
function parseDot(text: string) {
  const tokens = [
    ...text.matchAll(/\s*("(?:\\.|[^"\\])*"|->|[A-Za-z0-9_.]+|[{}[\];,=]|(\S))/g),
  ].map(([, token, stray]) => {
    if (stray !== undefined) throw new Error(`a stray ${stray}`);
    return token ?? '';
  });
  let at = 0;
  const next = () => tokens[at++] ?? '';
  const expectToken = (wanted: string) => {
    const found = next();
    if (found !== wanted) throw new Error(`${found} in place of ${wanted}`);
  };
  const isId = (token: string) => /^"|^[A-Za-z0-9_.]+$/.test(token);
  const id = () => {
    const token = next();
    if (!isId(token)) throw new Error(`${token} is no id`);
    return token;
  };
  const attributes = () => {
    const found: Record<string, string> = {};
    if (tokens[at] !== '[') return found;
    next();
    while (tokens[at] !== ']') {
      const name = id();
      expectToken('=');
      found[name] = id();
      if (tokens[at] === ',') next();
    }
    next();
    return found;
  };
  const nodes: string[] = [];
  const edges: { from: string; to: string; label: string | undefined }[] = [];
  expectToken('digraph');
  id();
  expectToken('{');
  while (tokens[at] !== '}') {
    const first = id();
    if (tokens[at] === '=') {
      next();
      id();
    } else if (tokens[at] === '->') {
      next();
      const to = id();
      edges.push({ from: first, to, label: attributes()['label']?.slice(1, -1) });
    } else if (first === 'node' || first === 'edge') attributes();
    else {
      nodes.push(first);
      attributes();
    }
    expectToken(';');
  }
  next();
  if (at !== tokens.length) throw new Error(`${tokens[at]} after the end`);
  return { nodes, edges };
}
