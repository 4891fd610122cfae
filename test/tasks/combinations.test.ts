import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Place } from '../../tasks/placement';
import { TasksetRefusedError } from '../../tasks/refusals';
import { loadTaskset } from '../../tasks/rows';

describe('HUD tasks and graders in a native taskset', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'native-hud-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  const place: Place = async ({ runtime }) => ({
    environment: {
      image: 'host',
      env: { WHERE: runtime ?? 'asked' },
      controller: { kind: 'hud', command: ['serve'] },
    },
    trees: [{ pack: async () => ({ to: '/app', ref: 'sha256:0', bytes: 1 }) }],
    config: {},
  });

  const load = async (tasks: string) => {
    await writeFile(join(dir, 'set.yaml'), `name: set\ntasks:\n${tasks}`);
    return loadTaskset(join(dir, 'set.yaml'), { imagesAreHere: true }, place);
  };

  it('places a HUD task by its runtime, with its own environment laid over', async () => {
    const { tasks, trees } = await load(
      `  - {id: a, hud: {id: add}, runtime: 'local:x', environment: {caps: {pids: 64}, env: {MORE: b}}}\n`,
    );

    expect(tasks[0]).toEqual({
      id: 'a',
      hud: { id: 'add' },
      environment: {
        image: 'host',
        caps: { pids: 64 },
        env: { WHERE: 'local:x', MORE: 'b' },
        controller: { kind: 'hud', command: ['serve'] },
      },
    });
    expect(trees?.get('a')).toHaveLength(1);
  });

  it('leaves a HUD task where its environment says', async () => {
    const own = '{image: host, controller: {kind: hud, command: [serve]}}';

    const { tasks, trees } = await load(
      `  - {id: a, hud: {id: add}, environment: ${own}}\n  - {id: b, hud: {id: add}, environment: {version: ver_1}}\n`,
    );

    expect(tasks.map(({ environment }) => environment)).toEqual([
      { image: 'host', controller: { kind: 'hud', command: ['serve'] } },
      { version: 'ver_1' },
    ]);
    expect(trees?.size).toBe(0);
  });

  const hudImage = 'environment: {image: host, controller: {kind: hud}}';
  const attached = "environment: {target: tcp, address: 'h:1', controller: {kind: hud}";

  it.each([
    [
      'a HUD task without a place',
      'hud: {id: t}, environment: {image: host}',
      'environment.controller: a HUD task needs a controller of kind `hud`; say `controller: {kind: hud, command: […]}`, or a `runtime` in place of it',
    ],
    [
      'a HUD task with another controller',
      'hud: {id: t}, environment: {version: v, controller: {kind: shell}}',
      'environment.controller: a HUD task needs a controller of kind `hud`; say `controller: {kind: hud, command: […]}`, or a `runtime` in place of it',
    ],
    [
      'a HUD controller without a HUD task',
      `prompt: p, verifier: {image: host, command: [x]}, ${hudImage}`,
      'hud: missing: its controller is a HUD environment; give a `hud` with the `id` of a task, or another controller',
    ],
    [
      'a world to restore',
      `hud: {id: t}, onOutcomeUnknown: restore, ${hudImage}`,
      'onOutcomeUnknown: `restore`: a HUD task lives in its environment\u2019s memory, which no version holds; say `report` or `fail`, or leave it out',
    ],
    [
      'checkpoints',
      `hud: {id: t}, checkpoints: step, ${hudImage}`,
      'checkpoints: a HUD task lives in its environment\u2019s memory, which no version holds; say `never`, or leave it out',
    ],
    [
      'a runtime beside an environment',
      `hud: {id: t}, runtime: local, ${hudImage}`,
      'runtime: `environment` says where it runs; keep one of them',
    ],
    [
      'a runtime of another task',
      'prompt: p, runtime: local, environment: {image: host}, verifier: {image: host, command: [x]}',
      'runtime: only a task with `hud` has one; say `environment`',
    ],
    [
      'an address of no target',
      "hud: {id: t}, environment: {address: 'h:1', controller: {kind: hud}}",
      'environment.address: an address is for target `tcp`; say `target: tcp` beside it',
    ],
    [
      'a target without its address',
      'hud: {id: t}, environment: {image: host, target: tcp, controller: {kind: hud}}',
      'environment.target: `tcp` needs an address; give `address: host:port`',
    ],
    [
      'an image that is shared',
      'hud: {id: t}, environment: {image: host, shared: 2, controller: {kind: hud}}',
      'environment.shared: only an `address` is shared; leave it out',
    ],
    ...[
      ['setup', `hud: {id: t}, setup: [[x]], ${attached}}`],
      ['environment.caps', `hud: {id: t}, ${attached}, caps: {pids: 9}}`],
      ['environment.env', `hud: {id: t}, ${attached}, env: {A: b}}`],
      ['verifier', `hud: {id: t}, verifier: {image: host, command: [x]}, ${attached}}`],
      [
        'grading.graders[0].kind',
        `hud: {id: t}, grading: {graders: [{kind: bash, name: b, command: x}]}, ${attached}}`,
      ],
    ].map(([field, text]) => [
      `${field} where nothing is started`,
      text,
      `${field}: an environment that is attached to by \`address\` is reached by its HUD channel alone; leave it out, or have the environment started here`,
    ]),
    [
      'a judge of no provider',
      `hud: {id: t}, grading: {graders: [{kind: judge, name: j, model: m, criteria: [c]}]}, ${hudImage}`,
      'grading.graders[0].model: "m" says no provider; say where it is served, as in openai/m (any OpenAI-compatible endpoint), anthropic/m, google/m or scripted',
    ],
    [
      'two graders of one name',
      `hud: {id: t}, grading: {graders: [{kind: hud}, {kind: bash, name: hud, command: x}]}, ${hudImage}`,
      'grading.graders[1].name: hud: used before; give each grader its own name',
    ],
    [
      'limits that cannot nest',
      `hud: {id: t}, limits: {agentTimeoutS: 9, runTimeoutS: 9}, ${hudImage}`,
      'limits.agentTimeoutS: agent timeout (9s) must be less than limits.runTimeoutS (9s); shorten one, or lengthen the other',
    ],
  ])('refuses %s', async (_what, fields, told) => {
    const error: unknown = await load(`  - {id: bad, ${fields}}\n`).then(
      () => undefined,
      (e: unknown) => e,
    );

    if (!(error instanceof TasksetRefusedError)) throw new Error(`not refused: ${String(error)}`);
    expect(error.message).toBe(`${join(dir, 'set.yaml')}:3: task "bad": ${told}`);
  });

  it('says how to place a HUD task that nothing places', async () => {
    await writeFile(join(dir, 'set.yaml'), 'name: set\ntasks:\n  - {id: a, hud: {id: add}}\n');

    await expect(loadTaskset(join(dir, 'set.yaml'), { imagesAreHere: true })).rejects.toThrow(
      'environment.image: missing; say where the HUD environment runs, as in `runtime: local:./env.py`',
    );
  });
});
