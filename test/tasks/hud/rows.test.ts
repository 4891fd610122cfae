import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mergeRuntimeConfig } from '../../../tasks/hud/config';
import { HudRuntimeConfig } from '../../../tasks/hud/row';
import { PlacementError } from '../../../tasks/placement';
import type { Place, PlacementTask } from '../../../tasks/placement';
import { TasksetRefusedError } from '../../../tasks/refusals';
import { loadTaskset } from '../../../tasks/rows';

describe('HUD task rows', () => {
  let dir: string;
  const asked: PlacementTask[] = [];
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'hud-rows-'));
    asked.length = 0;
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  /** Everything runs in image `host`, on the target that the row's runtime names. */
  const place: Place = async (task, config) => {
    asked.push(task);
    if (task.runtime === 'nowhere') {
      const complaint = { path: ['runtime'], message: 'no such place', remedy: 'name another' };
      throw new PlacementError(complaint);
    }
    const controller = { kind: 'hud' as const, command: ['serve'] };
    const merged = mergeRuntimeConfig({}, config);
    if (task.runtime === 'tcp') {
      const environment = { address: '127.0.0.1:1', target: 'tcp', controller: { kind: 'hud' } };
      return { environment, trees: [], config: merged } as Awaited<ReturnType<Place>>;
    }
    return { environment: { image: 'host', controller }, trees: [], config: merged };
  };

  const load = async (file: string, text: string) => {
    await writeFile(join(dir, file), text);
    return loadTaskset(join(dir, file), { imagesAreHere: true }, place);
  };
  const refusalOf = async (text: string, file = 'set.json'): Promise<string[]> => {
    const error: unknown = await load(file, text).then(
      () => undefined,
      (e: unknown) => e,
    );
    if (!(error instanceof TasksetRefusedError)) throw new Error(`not refused: ${String(error)}`);
    return error.message.replaceAll(`${dir}/`, '').split('\n');
  };
  const row = (over: object = {}) => ({ env: 'text', id: 'add', args: { a: 2, b: 3 }, ...over });

  it('makes a task of a row, with the environment\u2019s own prompt and grade', async () => {
    const text = JSON.stringify([row({ columns: { level: 'easy', depth: 2 } })], null, 2);

    const { name, tasks } = await load('my sums.json', text);

    expect(name).toBe('my-sums');
    expect(tasks).toEqual([
      {
        id: 'add-001a8858',
        environment: { image: 'host', controller: { kind: 'hud', command: ['serve'] } },
        hud: { env: 'text', id: 'add', args: { a: 2, b: 3 } },
        tags: { level: 'easy', depth: '2' },
        checkpoints: 'never',
        onOutcomeUnknown: 'report',
      },
    ]);
  });

  it('takes limits, caps, agent settings and a verifier over', async () => {
    const whole = row({
      slug: 'mine',
      agent_config: {
        timeout_seconds: 30,
        max_steps: 4,
        tool_timeout_seconds: 5,
        system_prompt: 'Be terse.',
      },
      runtime_config: {
        resources: { cpu: 0.5, memory_mb: 256, pids: 64, os: 'linux', gpu: null },
        limits: { startup_timeout_s: 9, run_timeout_s: 60 },
        egress: 'deny',
      },
      verifier: { env: 'text', id: 'recheck', args: { minimum: 0.5 }, runtime_config: null },
    });

    const { tasks } = await load('set.json', JSON.stringify(whole));

    expect(tasks[0]).toMatchObject({
      id: 'mine',
      environment: {
        caps: { cpus: 0.5, memoryMb: 256, pids: 64 },
        controller: { kind: 'hud', command: ['serve'], timeoutS: 9 },
      },
      limits: { maxSteps: 4, agentTimeoutS: 30, toolTimeoutS: 5, runTimeoutS: 60 },
      agent: { systemPrompt: 'Be terse.' },
      hud: { verifier: { id: 'recheck', args: { minimum: 0.5 } } },
    });
  });

  it('reads one object, an array and an object a line alike', async () => {
    const one = await load('set.json', JSON.stringify(row()));
    const many = await load('set.json', JSON.stringify([row(), row({ slug: 'b' })]));
    const lines = await load('set.jsonl', `${JSON.stringify(row())}\n\n{"env":"e","id":"b"}\n`);

    expect(one.tasks).toEqual([many.tasks[0]]);
    expect(many.tasks.map(({ id }) => id)).toEqual(['add-001a8858', 'b']);
    expect(lines.tasks.map(({ id }) => id)).toEqual(['add-001a8858', 'b']);
  });

  it('keeps an integer that a double cannot hold', async () => {
    const text = '{"env":"text","id":"add","args":{"a":9007199254740993,"b":1.0}}';

    const { tasks } = await load('set.json', text);

    expect(tasks[0]?.hud?.args).toEqual({ a: { $number: '9007199254740993' }, b: 1 });
  });

  it('tells the placement what the row says, its own runtime too', async () => {
    await load(
      'set.json',
      JSON.stringify(
        row({ runtime: 'here', runtime_config: { image: 'host' }, columns: { a: 'b' } }),
      ),
    );

    expect(asked).toEqual([
      {
        id: 'add-001a8858',
        env: 'text',
        task: 'add',
        args: { a: 2, b: 3 },
        tags: { a: 'b' },
        image: 'host',
        runtime: 'here',
      },
    ]);
  });

  it('says that validations are not run', async () => {
    const { notes } = await load('set.json', JSON.stringify(row({ validation: [{ tool: 'x' }] })));

    expect(notes).toEqual([
      "the `validation` of 1 rows is not run here; HUD's own runs leave it alone too",
    ]);
  });

  const lined = (over: object) =>
    `[\n{"env": "text", "id": "ok"},\n${JSON.stringify({ env: 'text', id: 'bad', ...over })}\n]`;

  it.each<[string, object, string]>([
    [
      'an unknown key, which HUD drops',
      { arg: {} },
      'row 2: arg: unknown field; did you mean `args`?',
    ],
    [
      'an unknown key like no other',
      { difficulty: 1 },
      'row 2: difficulty: unknown field; leave it out; known here: env, id, args, slug, columns, agent_config, runtime_config, verifier, validation, runtime',
    ],
    [
      'an unknown key of the runtime configuration',
      { runtime_config: { ports: [1] } },
      'row 2: runtime_config.ports: unknown field; leave it out; known here: image, compose, resources, limits, egress',
    ],
    [
      'an unknown resource',
      { runtime_config: { resources: { cpus: 1 } } },
      'row 2: runtime_config.resources.cpus: unknown field; did you mean `cpu`?',
    ],
    [
      'a model for one row',
      { agent_config: { model: 'm' } },
      'row 2: agent_config.model: the model is chosen for a whole batch; say it with --model',
    ],
    [
      'an agent setting of HUD\u2019s alone',
      { agent_config: { auto_respond: true } },
      'row 2: agent_config.auto_respond: not supported; leave it out',
    ],
    [
      'a Compose project',
      { runtime_config: { compose: { file: 'compose.yaml' } } },
      'task "bad": runtime_config.compose: Compose projects are not supported; give an `image`, or serve it yourself and attach with --runtime tcp://host:port',
    ],
    [
      'an image and a Compose project',
      { runtime_config: { image: 'host', compose: {} } },
      'task "bad": runtime_config.compose: either image or compose, not both; keep the image',
    ],
    [
      'GPUs',
      { runtime_config: { resources: { gpu: { count: 1 } } } },
      'task "bad": runtime_config.resources.gpu: target linux has no GPUs; leave it out',
    ],
    [
      'TPUs',
      { runtime_config: { resources: { tpu: { type: 'v5', topology: '2x2' } } } },
      'task "bad": runtime_config.resources.tpu: target linux has no TPUs; leave it out',
    ],
    [
      'another system',
      { runtime_config: { resources: { os: 'windows' } } },
      'task "bad": runtime_config.resources.os: "windows": sandboxes are Linux; leave it out',
    ],
    [
      'a disk limit',
      { runtime_config: { resources: { storage_mb: 100 } } },
      'task "bad": runtime_config.resources.storage_mb: target linux cannot cap the disk of one sandbox; leave it out',
    ],
    [
      'a network',
      { runtime_config: { egress: 'allow' } },
      'row 2: runtime_config.egress: "allow" does not fit; give one of `deny`',
    ],
    [
      'a verifier of another environment',
      { verifier: { env: 'other', id: 'v' } },
      'row 2: verifier.env: a verifier of another environment than "text" is not supported; verify in the same environment, or by `verifier` of a native task',
    ],
    [
      'a verifier on its own machine',
      { verifier: { env: 'text', id: 'v', runtime_config: { image: 'x' } } },
      'row 2: verifier.runtime_config: a verifier on a machine of its own is not supported; leave it out: it is graded on the task\u2019s connection',
    ],
    [
      'a verifier of a verifier',
      { verifier: { env: 'text', id: 'v', verifier: { env: 'text', id: 'w' } } },
      'row 2: verifier.verifier: nested verifiers are not supported; leave it out',
    ],
    [
      'limits that cannot nest',
      { agent_config: { timeout_seconds: 5 }, runtime_config: { limits: { run_timeout_s: 5 } } },
      'task "bad": agent_config.timeout_seconds: agent timeout (5s) must be less than runtime_config.limits.run_timeout_s (5s); shorten one, or lengthen the other',
    ],
    [
      'a slug that cannot be part of a workflow id',
      { slug: 'a b' },
      'task "a b": slug: "a b" does not fit; give letters, digits, ".", "_" and "-", at most 100',
    ],
    ['a missing id', { id: undefined }, 'row 2: id: missing; give a text'],
    [
      'arguments that are none',
      { args: [1] },
      'row 2: args: [1] does not fit; give a mapping of names to values',
    ],
    [
      'caps where nothing is started',
      { runtime: 'tcp', runtime_config: { resources: { cpu: 1 } } },
      'task "bad": runtime_config.resources.cpu: nothing is started at an address that is attached to; leave it out, or choose another runtime',
    ],
    [
      'an image where nothing is started',
      { runtime: 'tcp', runtime_config: { image: 'host' } },
      'task "bad": runtime_config.image: nothing is started at an address that is attached to; leave it out, or choose another runtime',
    ],
    [
      'a place that is none',
      { runtime: 'nowhere' },
      'task "bad": runtime: no such place; name another',
    ],
  ])('refuses %s, by line and name', async (_what, over, told) => {
    expect(await refusalOf(lined(over))).toEqual([`set.json:3: ${told}`]);
  });

  it('refuses a slug used twice, with both lines', async () => {
    expect(await refusalOf(lined({ id: 'ok' }))).toEqual([
      'set.json:3: task "ok": slug: used before, on line 2; give each row its own slug',
    ]);
  });

  it.each([
    ['set.json', '[]', 'set.json:1: no task in it; add a row'],
    ['set.json', '[1]', 'set.json:1: row 1: not a task; give an object with `env` and `id`'],
    [
      'set.jsonl',
      '{"name": "a"}\n{"env": "e", "id": "t"}',
      'set.jsonl:1: header: HUD rows have no defaults; leave the header out, or write the rows as tasks with a `hud`',
    ],
    [
      'set.jsonl',
      '{"env": "e", "id": "t"}\n{"id": "a", "prompt": "p"}',
      'set.jsonl:2: row 2: env: missing; give a text',
    ],
  ])('refuses a malformed %s: %p', async (file, text, told) => {
    expect((await refusalOf(text, file))[0]).toBe(told);
  });
});

describe('HUD\u2019s merge of runtime configurations', () => {
  const base: HudRuntimeConfig = {
    image: 'base',
    resources: { cpu: 4, memory_mb: 8192 },
    limits: { run_timeout_s: 60 },
  };

  // As `RuntimeConfig.with_overrides` of hud 0.6.21 answers, but for what is null.
  it.each<[string, string, object]>([
    ['nothing set', '{}', base],
    [
      'a resource replaces all of them',
      '{"resources":{"cpu":1}}',
      { ...base, resources: { cpu: 1 } },
    ],
    ['null clears', '{"image":null}', { ...base, image: null, compose: null }],
    ['an image', '{"image":"row"}', { ...base, image: 'row', compose: null }],
    ['null resources', '{"resources":null}', { ...base, resources: null }],
    ['limits', '{"limits":{"startup_timeout_s":5}}', { ...base, limits: { startup_timeout_s: 5 } }],
    [
      'Compose puts away the image',
      '{"compose":{"x":1}}',
      { ...base, image: null, compose: { x: 1 } },
    ],
  ])('%s', (_what, row, merged) => {
    const override = HudRuntimeConfig.parse(JSON.parse(row));

    const { compose = null, ...rest } = mergeRuntimeConfig(base, override);

    expect({ compose, ...rest }).toEqual({ compose: null, ...merged });
  });

  it('takes the base alone where a row has none', () => {
    expect(mergeRuntimeConfig(base, null)).toBe(base);
  });
});
