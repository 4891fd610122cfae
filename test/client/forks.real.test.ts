import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import type { RolloutDescription } from '../../client/api/describe';
import type { RolloutDiff } from '../../client/api/diff';
import { connectDenv } from '../../client/api/connect';
import { settingsFrom } from '../../client/settings';
import { parseConversations } from '../../client/training/schema';
import type { TreeRollout } from '../../client/api/tree';
import { rolloutsOf } from '../../client/api/tree';
import { ExplorationResult } from '../../contracts/exploration';
import { startScripted } from '../../models/scripted/server';
import type { ScriptedEndpoint } from '../../models/scripted/server';

const root = resolve(__dirname, '../..');
const maze = join(root, 'examples/maze');

/** One stack for the whole file: the tests go on from one rollout, which goes up the stair and ends with reward 0. */
describe('forks on a real stack', () => {
  let home: string;
  let model: ScriptedEndpoint;
  const parent = 'rollout/m/way-out/0';

  beforeAll(async () => {
    home = await mkdtemp(join(tmpdir(), 'forks-stack-'));
    model = await startScripted({ file: join(maze, 'script.yaml') });
    const up = await rollouts([
      'up',
      '--detach',
      '--temporal-port',
      '0',
      '--ui-port',
      '0',
      '--denv-port',
      '0',
    ]);
    expect(up).toMatchObject({ code: 0, err: '' });
    const at = [
      '--model',
      'scripted',
      '--base-url',
      `${model.address}/v1`,
      '--model-arg',
      'seed=0',
    ];
    const run = await rollouts(['run', join(maze, 'taskset.yaml'), '--batch', 'm', ...at]);
    expect(run).toMatchObject({ code: 0 });
  }, 120_000);

  afterAll(async () => {
    await rollouts(['down']);
    await model.close();
    await rm(home, { recursive: true, force: true });
  }, 120_000);

  function start(args: string[]) {
    return spawn(join(root, 'bin/rollouts'), args, {
      env: { PATH: process.env['PATH'], HOME: process.env['HOME'], ROLLOUTS_HOME: home },
    });
  }

  async function rollouts(args: string[], typed = '') {
    const child = start(args);
    child.stdin.end(typed);
    const [out, err, [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ]);
    return { code: code as number | null, out, err };
  }

  async function json<T>(args: string[], typed = ''): Promise<T> {
    const { code, out, err } = await rollouts([...args, '--json'], typed);
    expect({ code, err: code === 0 ? '' : err }).toEqual({ code: 0, err: '' });
    return JSON.parse(out) as T; // a test of what commands print
  }

  async function sandboxes() {
    const denv = connectDenv(settingsFrom({ ROLLOUTS_HOME: home }));
    return (await denv.listSandboxes()).sandboxes.map(({ id }) => id);
  }

  it('explores a tree, tells how it goes, and draws it', async () => {
    const args = [
      'explore',
      parent,
      '--strategy',
      'tree',
      '--at',
      '2',
      '--depth',
      '2',
      '--branch',
      '2',
    ];
    const { code, out, err } = await rollouts([...args, '--json']);

    expect(code).toBe(0);
    const explored = ExplorationResult.parse(JSON.parse(out));
    expect(explored).toMatchObject({ ended: 'done', scored: 4, values: [{ step: 2, visits: 4 }] });
    expect(err.match(/\] x1\.\d, from before step /g)).toHaveLength(4);
    const tree = await json<TreeRollout>(['tree', parent]);
    expect(tree.points.map(({ step, visits }) => [step, visits])).toEqual([[2, 4]]);
    const drawn = rolloutsOf(tree).slice(1);
    expect(rewardsOf(drawn)).toEqual(rewardsOf(explored.rollouts));
    expect(await sandboxes()).toEqual([]);
  }, 120_000);

  it('cancels what runs at the first Ctrl-C, and waits until that is cleaned up', async () => {
    const child = start([
      'explore',
      parent,
      '--strategy',
      'value',
      '--count',
      '5',
      '--concurrency',
      '2',
    ]);
    child.stdin.end();
    const [said, printed] = [text(child.stderr), text(child.stdout)];
    await once(child.stderr, 'data');
    child.kill('SIGINT');

    const [code] = await once(child, 'close');

    expect(code).toBe(3);
    expect(await said).toContain('cancelling; waiting for sandboxes to be cleaned up');
    expect(await printed).toContain('; cancelled\n');
    expect(await sandboxes()).toEqual([]);
  }, 120_000);

  it('forks with another observation and a word, and show says so', async () => {
    const args = [
      'fork',
      parent,
      '--at',
      '2',
      '--edit-observation',
      '1.1=-',
      '--message',
      'No door leads on: look.',
    ];
    const { rollouts: forks } = await json<{ rollouts: { rolloutId: string }[] }>(
      args,
      'No door leads on.',
    );

    expect(forks).toMatchObject([{ rolloutId: `${parent}/e2.1`, outcome: 'scored' }]);
    const { origin, trajectory } = await json<RolloutDescription>(['show', `${parent}/e2.1`]);
    expect(origin).toMatchObject({
      step: 2,
      way: 'snapshot',
      said: ['No door leads on: look.'],
      edited: [{ step: 1, call: 1, after: 'No door leads on.' }],
    });
    expect(trajectory.filter(({ type }) => type === 'person')).toHaveLength(1);
  }, 60_000);

  it('makes the calls again where it goes by replay, and asks no model for them', async () => {
    const before = model.stats().requests;
    const args = ['fork', parent, '--at', '4', '--way', 'replay'];
    const { rollouts: forks } = await json<{ rollouts: { modelCalls: number }[] }>(args);

    expect(forks).toMatchObject([{ outcome: 'scored', failure: null }]);
    expect(model.stats().requests - before).toBe(forks[0]?.modelCalls);
    const diff = await json<RolloutDiff>(['diff', parent, `${parent}/e4.1`]);
    expect(diff.shared).toBeGreaterThanOrEqual(7);
  }, 60_000);

  it('compares transcripts, outcomes and files', async () => {
    const diff = await json<RolloutDiff>(['diff', parent, `${parent}/e2.1`]);

    expect(diff).toMatchObject({ parting: { step: 1 }, files: { why: null } });
    expect(diff.sides.map(({ model: name }) => name)).toEqual(['scripted', 'scripted']);
    const changed = diff.files.diff?.files.map(({ path }) => path) ?? [];
    expect(changed.every((path) => path.startsWith('/'))).toBe(true);
  }, 60_000);

  it('runs a command in a throw-away fork, and gives its exit code', async () => {
    const walk = [
      '--',
      'sh',
      '-c',
      'cat /workspace/maze/walk; wc -c; rm /workspace/maze/walk; exit 4',
    ];

    const first = await rollouts(['shell', parent, '--at', '3', ...walk], 'four');
    const again = await rollouts(['shell', parent, '--at', '3', ...walk], 'four');

    expect(first).toMatchObject({ code: 4, err: '' });
    expect(first.out).toMatch(/\n4\n$/);
    expect(again).toEqual(first);
    expect(await sandboxes()).toEqual([]);
  }, 60_000);

  it('exports every conversation whole', async () => {
    const file = join(home, 'training.jsonl');

    const { code, err } = await rollouts(['export', parent, '--training', file]);

    expect(code).toBe(0);
    const conversations = parseConversations(await readFile(file, 'utf8'));
    expect(err).toContain(`${conversations.length} rollouts in `);
    for (const { leaf, messages } of conversations) {
      const { trajectory } = await json<RolloutDescription>(['show', leaf.leaf]);
      expect(messages.map(({ role }) => role)).toHaveLength(trajectory.length);
    }
  }, 120_000);
});

const rewardsOf = (some: { rolloutId: string; reward: number | null }[]) =>
  Object.fromEntries(some.map(({ rolloutId, reward }) => [rolloutId, reward]));
