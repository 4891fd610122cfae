import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { parse } from 'yaml';
import { Task } from '../../contracts/task';
import { chooseReply } from '../../models/scripted/reply';
import { readScript } from '../../models/scripted/script';
import { mergeDefaults } from '../../tasks/merge';
import { describe as placeText, rewardOf, rooms, roomsOf } from '../../examples/maze/lib/map.mjs';

const example = join(__dirname, '../../examples/maze');
const solution = ['corridor', 'crack', 'middle', 'left', 'right'];

describe('the map', () => {
  test.each([
    [[], 0, 'gate'],
    [['corridor'], 0, 'hall'],
    [['corridor', 'stair', 'arch', 'steps'], 0, 'court'],
    [['corridor', 'crack'], 0.4, 'cave'],
    [['corridor', 'crack', 'left'], 0.4, 'shaft'],
    [['corridor', 'crack', 'middle', 'left', 'left'], 0.8, 'shaft'],
    [solution, 1, 'outside'],
    [['corridor', 'stair', ...solution], 0, 'gallery'],
    [['toString', '__proto__', 'corridor'], 0, 'hall'],
  ])('a walk through %j is worth %d', (walk, reward, last) => {
    expect([rewardOf(walk), roomsOf(walk).at(-1)]).toEqual([reward, last]);
  });
});

describe('the maze controller', () => {
  let dir: string;
  let program: string;
  let client: Client;

  beforeAll(() => {
    dir = mkdtempSync(join(tmpdir(), 'maze-'));
    program = join(dir, 'main.mjs');
    execFileSync('esbuild', [
      join(example, 'src/main.mjs'),
      '--bundle',
      '--platform=node',
      '--format=esm',
      '--target=node22',
      '--log-level=warning',
      `--banner:js=import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);`,
      `--outfile=${program}`,
    ]);
  });
  afterAll(() => rmSync(dir, { recursive: true, force: true }));
  afterEach(() => client.close());

  async function connect(root: string): Promise<void> {
    client = new Client({ name: 'test', version: '1' });
    const env = { MAZE_ROOT: root };
    await client.connect(
      new StdioClientTransport({ command: process.execPath, args: [program], env }),
    );
  }
  const go = (door: string) => client.callTool({ name: 'go', arguments: { door } });

  test('goes on in a second process where the first one was', async () => {
    const root = mkdtempSync(join(dir, 'world-'));
    await connect(root);
    await go('corridor');
    const wrong = await go('left');
    await client.close();
    await connect(root);

    const last = await go('crack');

    expect(wrong).toMatchObject({
      isError: true,
      content: [{ text: 'there is no door left here' }],
    });
    expect(last).toMatchObject({
      content: [{ text: `The door shuts behind you.\n${placeText('cave')}` }],
    });
    expect(readFileSync(join(root, 'maze/walk'), 'utf8')).toBe('corridor\ncrack\n');
  });
});

describe('the policy', () => {
  const { tasks, defaults } = parse(readFileSync(join(example, 'taskset.yaml'), 'utf8')) as {
    tasks: unknown[];
    defaults: unknown;
  }; // the row is parsed below
  const task = Task.parse(mergeDefaults(defaults, tasks[0]));
  const script = readScript(join(example, 'script.yaml'));

  /** A rollout by the endpoint's own choices, without endpoint and sandbox. */
  function rewardBy(seed: number): number {
    const walk: string[] = [];
    const messages: { role: string; content: string }[] = [
      { role: 'user', content: task.prompt ?? '' },
    ];
    for (;;) {
      const choice = chooseReply(script, { model: 'scripted', messages, seed });
      if (choice.kind !== 'reply') throw new Error(choice.message);
      const door = choice.reply.toolCalls?.[0]?.arguments?.['door'];
      if (typeof door !== 'string') return rewardOf(walk);
      walk.push(door);
      messages.push({ role: 'assistant', content: door });
      messages.push({ role: 'tool', content: placeText(roomsOf(walk).at(-1) ?? 'gate') });
    }
  }

  test('has words for every room, and reaches the end of the maze about once in 68 tries', () => {
    const rewards = Array.from({ length: 4000 }, (_, seed) => rewardBy(seed));

    const share = (reward: number) => rewards.filter((r) => r === reward).length / rewards.length;
    expect(share(0)).toBeCloseTo(0.6, 1);
    expect(share(1)).toBeGreaterThan(0.4 / 27 / 2);
    expect(share(1)).toBeLessThan((0.4 / 27) * 2);
  });

  test('goes through no door that is not there', () => {
    const doors = new Set(Object.values(rooms).flatMap((room) => Object.keys(room.doors)));

    const asked = (script.entries[0]?.policy ?? [])
      .flatMap(({ choices }) => choices.flatMap(({ reply }) => reply.toolCalls ?? []))
      .map((call) => call.arguments?.['door']);

    expect(new Set(asked)).toEqual(doors);
  });
});
