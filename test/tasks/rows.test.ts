import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TasksetRefusedError } from '../../tasks/refusals';
import { loadTaskset } from '../../tasks/rows';

describe('loading a taskset', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'taskset-'));
    await writeFile(join(dir, 'verify.sh'), 'exit 0');
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  const load = async (file: string, text: string) => {
    await writeFile(join(dir, file), text);
    return loadTaskset(join(dir, file), { imagesAreHere: true });
  };
  /** What a person is told, without the folder of this test. */
  const refusalOf = async (file: string, text: string): Promise<string[]> => {
    const error: unknown = await load(file, text).then(
      () => undefined,
      (e: unknown) => e,
    );
    if (!(error instanceof TasksetRefusedError)) throw new Error(`not refused: ${String(error)}`);
    return error.message.replaceAll(`${dir}/`, '').split('\n');
  };

  const good = `name: set
defaults:
  environment: {image: host, files: [{from: ./verify.sh, to: /app/}], controller: {kind: mcp-http, port: 8765}}
  verifier: {image: host, command: [sh, /v.sh], timeoutS: 60}
  limits: {maxSteps: 20, agentTimeoutS: 600}
tasks:
  - id: one
    prompt: Do it.
  - id: two
    prompt: Do it again.
    limits: {maxSteps: 3}
    environment: {controller: {kind: shell}, caps: {pids: 64}}
    verifier: {command: [sh, /other.sh]}
`;

  it('merges defaults field by field, and the task wins', async () => {
    const { name, folder, tasks } = await load('set.yaml', good);

    expect(name).toBe('set');
    expect(folder).toBe(dir);
    expect(tasks[0]).toEqual({
      id: 'one',
      prompt: 'Do it.',
      environment: {
        image: 'host',
        files: [{ from: './verify.sh', to: '/app/' }],
        controller: { kind: 'mcp-http', port: 8765 },
      },
      verifier: { image: 'host', command: ['sh', '/v.sh'], timeoutS: 60 },
      limits: { maxSteps: 20, agentTimeoutS: 600 },
    });
    expect(tasks[1]).toMatchObject({
      limits: { maxSteps: 3, agentTimeoutS: 600 },
      environment: { image: 'host', controller: { kind: 'shell' }, caps: { pids: 64 } },
      verifier: { image: 'host', command: ['sh', '/other.sh'], timeoutS: 60 },
    });
    expect(tasks[1]?.environment.controller).toEqual({ kind: 'shell' });
  });

  it('lets a version of a task put away the default image', async () => {
    const { tasks } = await load(
      'set.yaml',
      `${good}  - {id: three, prompt: p, environment: {version: ver_1}}\n`,
    );

    expect(tasks[2]?.environment).toMatchObject({ version: 'ver_1' });
    expect(tasks[2]?.environment).not.toHaveProperty('image');
  });

  it('reads the same taskset from JSON and from JSONL with a header', async () => {
    const fromYaml = await load('set.yaml', good);
    const { parse } = await import('yaml');
    const value = parse(good) as { name: string; defaults: unknown; tasks: unknown[] };
    const { tasks, ...header } = value;

    const fromJson = await load('set.json', JSON.stringify(value, null, '\t'));
    const lines = [header, ...tasks].map((row) => JSON.stringify(row)).join('\n\n');
    const fromLines = await load('other.jsonl', `\uFEFF${lines}\r\n`);

    expect(fromJson).toEqual(fromYaml);
    expect(fromLines).toEqual(fromYaml);
  });

  it('names a JSONL taskset without a header by its file', async () => {
    const row = `{"id": "a", "prompt": "p", "environment": {"image": "host"}, "verifier": {"image": "host", "command": ["true"]}}`;

    expect((await load('my tasks.jsonl', row)).name).toBe('my-tasks');
  });

  const row = (over: string) =>
    `name: set
tasks:
  - id: ok
    prompt: p
    environment: {image: host}
    verifier: {image: host, command: [sh, /v.sh]}
  - id: bad
    prompt: p
    environment: {image: host}
    verifier: {image: host, command: [sh, /v.sh]}
    ${over}
`;

  it.each([
    [
      'an unknown field',
      row('promt: x'),
      '11: task "bad": promt: unknown field; did you mean `prompt`?',
    ],
    [
      'an unknown field like no other',
      row('limits: {retries: 1}'),
      '11: task "bad": limits.retries: unknown field; leave it out; known here: maxSteps, maxTokens, maxCostUsd, agentTimeoutS, runTimeoutS, toolTimeoutS, maxAttempts',
    ],
    [
      'a wrong type',
      row('limits: {maxSteps: many}'),
      '11: task "bad": limits.maxSteps: "many" does not fit; give a number',
    ],
    [
      'a wrong list',
      row('setup: [echo hi]'),
      '11: task "bad": setup[0]: "echo hi" does not fit; give a list',
    ],
    [
      'a wrong choice',
      row('checkpoints: often'),
      '11: task "bad": checkpoints: "often" does not fit; give one of `step`, `mutating`, `never`, or a number',
    ],
    [
      'a number out of range',
      row('limits: {maxCostUsd: 0}'),
      '11: task "bad": limits.maxCostUsd: 0 does not fit; give a number above 0',
    ],
  ])('refuses %s with line, field and remedy', async (_what, text, told) => {
    expect(await refusalOf('set.yaml', text)).toEqual([`set.yaml:${told}`]);
  });

  const whole = (environment: string, verifier = '{image: host, command: [sh]}', id = 'bad') =>
    `name: set\ntasks:\n  - id: ${id}\n    prompt: p\n    environment: ${environment}\n    verifier: ${verifier}\n`;

  it.each([
    [
      'a missing image',
      whole('{workdir: /w}'),
      '5: task "bad": environment.image: missing; say `host` (this machine\u2019s own programs), `dir:/path` or `tar:/path.tar`',
    ],
    [
      'an image that is not there',
      whole('{image: "dir:/no/such/tree"}'),
      '5: task "bad": environment.image: there is no /no/such/tree; make it, or name another image',
    ],
    [
      'an image of a registry',
      whole('{image: "ubuntu:24.04"}'),
      '5: task "bad": environment.image: "ubuntu:24.04" is no image that the embedded target knows; say `host` (this machine\u2019s own programs), `dir:/path` or `tar:/path.tar`',
    ],
    [
      'a disk cap',
      whole('{image: host, caps: {diskMb: 10}}'),
      '5: task "bad": environment.caps.diskMb: not supported by the embedded target, which cannot cap the disk of one sandbox; leave it out',
    ],
    [
      'a GPU',
      whole('{image: host, gpu: 1}'),
      '5: task "bad": environment.gpu: the embedded target has no GPUs; leave it out',
    ],
    [
      'a network for the verifier',
      whole('{image: host}', '{image: host, command: [sh], network: allow}'),
      '6: task "bad": verifier.network: "allow" is not supported: verifiers run without a network; say `deny`, or leave it out',
    ],
    [
      'a file that is not there',
      whole('{image: host, files: [{from: ./no.txt, to: /a}]}'),
      '5: task "bad": environment.files[0].from: there is no no.txt; make it, or mend the path',
    ],
    [
      'an absolute file',
      whole('{image: host, files: [{from: /etc/hosts, to: /a}]}'),
      '5: task "bad": environment.files[0].from: /etc/hosts is an absolute path; give a path from the taskset\u2019s own folder',
    ],
    [
      'a controller of no kind we know',
      whole('{image: host, controller: {kind: ssh}}'),
      '5: task "bad": environment.controller.kind: "ssh" does not fit; give one of `shell`, `mcp-http`, `mcp-stdio`, `hud`',
    ],
    [
      'a field of a controller',
      whole('{image: host, controller: {kind: mcp-stdio, command: [a], prt: 1}}'),
      '5: task "bad": environment.controller.prt: unknown field; leave it out; known here: kind, command, user, timeoutS',
    ],
    [
      'an id that cannot be part of a workflow id',
      whole('{image: host}', undefined, 'a b'),
      '3: task "a b": id: "a b" does not fit; give letters, digits, ".", "_" and "-", at most 100',
    ],
  ])('refuses %s', async (_what, text, told) => {
    expect(await refusalOf('set.yaml', text)).toEqual([`set.yaml:${told}`]);
  });

  it('refuses an image that lies where the server takes none from', async () => {
    const file = join(dir, 'set.yaml');
    await writeFile(file, whole(`{image: "dir:${dir}"}`));
    const places = (imageDirs: string[]) => ({ imagesAreHere: true, imageDirs });

    expect((await loadTaskset(file, places(['/no/such', dir]))).tasks).toHaveLength(1);
    await expect(loadTaskset(file, places(['/home/images']))).rejects.toThrow(
      `the denv server takes images from /home/images alone, and ${dir} is not there; start the stack with: rollouts up --image-dir ${tmpdir()}`,
    );
  });

  it('says of a fault in the defaults where it stands, once', async () => {
    const text = good.replace('{maxSteps: 20,', '{maxSteps: 20, maxStep: 1,');

    expect(await refusalOf('set.yaml', text)).toEqual([
      'set.yaml:5: defaults: limits.maxStep: unknown field; did you mean `maxSteps`?',
    ]);
  });

  it('names everything that is missing in a row', async () => {
    expect(await refusalOf('set.yaml', 'name: set\ntasks:\n  - id: a\n  - just text\n')).toEqual([
      'set.yaml:3: task "a": environment.image: missing; say `host` (this machine\u2019s own programs), `dir:/path` or `tar:/path.tar`',
      'set.yaml:3: task "a": prompt: missing; give a text',
      'set.yaml:3: task "a": verifier: missing; give a mapping of fields',
      'set.yaml:4: row 2: not a task; give a mapping with `id` and `prompt`',
    ]);
  });

  it('refuses an id used twice, with both lines', async () => {
    const text = `${good}  - {id: one, prompt: p}\n`;

    expect(await refusalOf('set.yaml', text)).toEqual([
      'set.yaml:14: task "one": id: used before, on line 7; give each task its own id',
    ]);
  });

  it.each([
    ['set.yaml', 'name: set\ntasks: [\n', /^set\.yaml:\d: malformed: .*; mend the text there$/],
    [
      'set.yaml',
      'name: set\nname: two\ntasks: []\n',
      /^set\.yaml:2: malformed: Map keys must be unique/,
    ],
    ['set.json', '{"name": "set",\n "tasks": [}', /^set\.json:2: malformed: .*JSON/],
    [
      'set.json',
      '{"name": "set",\n "name": "b"}',
      /^set\.json:2: malformed: the same key stands twice/,
    ],
    ['set.jsonl', '{"name": "set"}\n\n{"id": "a",}', /^set\.jsonl:3: row 3: malformed: .*JSON/],
    ['set.jsonl', '{"name": "set"}\n', /^set\.jsonl: no task in it/],
    ['set.jsonl', '{"name": "set", "x": 1}\n{}', /^set\.jsonl:1: header: x: unknown field/],
    ['set.yaml', '- id: a\n', /^set\.yaml:1: not a taskset; start the file with/],
    ['set.yaml', 'name: set\ntasks: []\n', /^set\.yaml:2: tasks: not a list of tasks/],
    ['set.yaml', 'name: set\ntask: []\n', /^set\.yaml:2: task: unknown field/],
    ['set.yaml', '', /^set\.yaml:1: not a taskset/],
    ['set.txt', 'x', /^set\.txt: the ending says no format; name it \.yaml, \.json or \.jsonl$/],
  ])('refuses a malformed %s: %p', async (file, text, told) => {
    expect((await refusalOf(file, text))[0]).toMatch(told);
  });

  it('refuses a taskset that is not there', async () => {
    const path = join(dir, 'none.yaml');

    await expect(loadTaskset(path, { imagesAreHere: true })).rejects.toThrow(
      /none\.yaml: there is no such file; name a taskset file$/,
    );
  });

  it('counts what it does not print', async () => {
    const tasks = Array.from({ length: 30 }, (_, i) => `  - {id: t${i}, prompt: p, x: 1}`).join(
      '\n',
    );
    const told = await refusalOf('set.yaml', good.replace(/tasks:[^]*/, `tasks:\n${tasks}\n`));

    expect(told).toHaveLength(21);
    expect(told[20]).toBe('and 10 more of the kind');
  });
});
