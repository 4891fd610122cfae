import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UsageError } from '../../../client/errors';
import { placement } from '../../../client/runtimes/placement';
import { createPlacer } from '../../../client/runtimes/placer';
import { sourcesBeside } from '../../../client/runtimes/sources';
import type { RuntimeOptions } from '../../../client/runtimes/runtime';
import { PlacementError } from '../../../tasks/placement';
import type { PlacementTask } from '../../../tasks/placement';

describe('placing HUD tasks', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'placer-'));
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  const task: PlacementTask = {
    id: 't',
    env: 'sums',
    task: 'add',
    args: {},
    tags: {},
    image: null,
    runtime: null,
  };
  const image = (name: string) => ({ task: { image: name }, config: { image: name } });

  async function place(
    options: RuntimeOptions,
    over: { task?: Partial<PlacementTask>; config?: object } = {},
  ) {
    const placer = await createPlacer(join(dir, 'tasks.json'), options);
    const placed = await placer.place({ ...task, ...over.task }, over.config ?? null);
    placer.checkOptions();
    return { environment: placed.environment, config: placed.config, told: placer.told() };
  }

  it.each<[RuntimeOptions, ReturnType<typeof image> | undefined, object]>([
    [{ runtime: 'denv:ver_1' }, undefined, { version: 'ver_1', controller: { kind: 'hud' } }],
    [
      { runtime: 'denv:ver_1', command: 'serve it' },
      undefined,
      { version: 'ver_1', controller: { kind: 'hud', command: ['sh', '-c', 'exec serve it'] } },
    ],
    [
      { runtime: 'denv:dir:/srv/a', command: '["serve", "it"]' },
      undefined,
      { image: 'dir:/srv/a', controller: { kind: 'hud', command: ['serve', 'it'] } },
    ],
    [
      { runtime: 'denv', image: 'host', command: 'x' },
      image('tar:/b.tar'),
      { image: 'tar:/b.tar', controller: { kind: 'hud', command: ['sh', '-c', 'exec x'] } },
    ],
    [
      { runtime: 'docker:sums:1' },
      undefined,
      { image: 'sums:1', target: 'docker', controller: { kind: 'hud' } },
    ],
    [
      { runtime: 'docker', image: 'base' },
      image('own:2'),
      { image: 'own:2', target: 'docker', controller: { kind: 'hud' } },
    ],
    [
      { runtime: 'tcp://127.0.0.1:8765' },
      undefined,
      { address: '127.0.0.1:8765', target: 'tcp', controller: { kind: 'hud' } },
    ],
    [
      { runtime: 'tcp://h:1', shared: 4 },
      undefined,
      { address: 'h:1', target: 'tcp', shared: 4, controller: { kind: 'hud' } },
    ],
  ])('makes of %j with %j the environment %j', async (options, over, environment) => {
    expect((await place(options, over)).environment).toEqual(environment);
  });

  it('takes the runtime that a row names before all others', async () => {
    const { environment, told } = await place(
      { runtime: 'denv:ver_1' },
      { task: { runtime: 'docker:own' } },
    );

    expect(environment).toMatchObject({ image: 'own', target: 'docker' });
    expect(told).toEqual(['1 task on docker:own']);
  });

  it('finds a runtime by the image of a row, and says why', async () => {
    expect((await place({}, image('sums:1'))).told).toEqual([
      '1 task on docker, since its row names an image',
    ]);
    expect((await place({ command: 'x' }, image('dir:/a'))).told).toEqual([
      '1 task on denv, since its row names an image of the denv server',
    ]);
  });

  it.each<[string, RuntimeOptions, Parameters<typeof place>[1], string]>([
    [
      'a name',
      { runtime: 'vm' },
      {},
      '--runtime vm: "vm" is no runtime; it is one of: denv, denv:',
    ],
    ['an address', { runtime: 'tcp:8765' }, {}, '--runtime tcp:8765: not an address; write it as'],
    [
      'no image',
      { runtime: 'docker' },
      {},
      '--runtime docker: task "t" has no image; name one as in docker:IMAGE, with --image, or',
    ],
    [
      'an image that is cleared',
      { runtime: 'docker:base' },
      { config: { image: null } },
      '--runtime docker:base: task "t" has no image;',
    ],
    [
      'an image that nothing serves',
      { runtime: 'denv:host' },
      {},
      '--runtime denv:host: nothing says how image host serves the environment of task "t"; give --command',
    ],
    [
      'an image of another kind',
      { runtime: 'denv:ubuntu' },
      {},
      '--runtime denv:ubuntu: "ubuntu" is an image of a Docker engine; run it with --runtime docker',
    ],
    [
      'two images',
      { runtime: 'docker:a', image: 'b' },
      {},
      '--image b: the runtime docker:a names one too',
    ],
    [
      'no source',
      { runtime: 'local:none.py' },
      {},
      'none.py; name a Python file, or a folder of them',
    ],
    [
      'no source beside',
      { runtime: 'local' },
      {},
      '--runtime local: there is no env.py beside the taskset',
    ],
    [
      'a cloud',
      { runtime: 'modal' },
      {},
      '--runtime modal: sandboxes of Modal cannot be driven from here: that takes Modal\u2019s package, an account there and its token; task "t" would run on local:PATH/TO/env.py, docker:IMAGE, denv:VERSION, tcp://HOST:PORT',
    ],
    [
      'a cloud, for a task with an image',
      { runtime: 'hosted' },
      image('sums:1'),
      'task "t" would run on local:PATH/TO/env.py, docker, denv:VERSION, tcp://HOST:PORT',
    ],
    [
      'nothing',
      {},
      {},
      'where does environment "sums" run? Nothing with the taskset says so for task "t". Give --runtime with one of: local:PATH/TO/env.py, docker:IMAGE, denv:VERSION, tcp://HOST:PORT',
    ],
    [
      'an option of others',
      { runtime: 'tcp://h:1', env: 'a' },
      {},
      '--env: not with the runtime tcp; with local, subprocess',
    ],
    [
      'a command that is none',
      { runtime: 'denv:host', command: '[1]' },
      {},
      '--command [1]: give a line for a shell, or a JSON list of texts',
    ],
    [
      'a placement that is not there',
      { placement: 'no.mjs' },
      {},
      '--placement no.mjs: there is no such file',
    ],
  ])('refuses %s', async (_what, options, over, told) => {
    const error: unknown = await place(options, over).then(
      () => undefined,
      (e: unknown) => e,
    );

    if (!(error instanceof UsageError)) throw new Error(`not refused: ${String(error)}`);
    expect(error.message).toContain(told);
  });

  it.each<[RuntimeOptions, Parameters<typeof place>[1], string[], string]>([
    [
      { runtime: 'denv', command: 'x' },
      image('sums:1'),
      ['runtime_config', 'image'],
      '"sums:1" is an image of a Docker engine',
    ],
    [
      { runtime: 'denv:ver_1' },
      image('host'),
      ['runtime_config', 'image'],
      'the runtime ver_1 is a version, which has its image',
    ],
    [
      { runtime: 'local' },
      image('host'),
      ['runtime_config', 'image'],
      'the runtime local serves a source in image host, and starts no other',
    ],
    [{}, { task: { runtime: 'vm' } }, ['runtime'], '"vm" is no runtime'],
  ])('says of %j that the row %j is at fault', async (options, over, path, message) => {
    const error: unknown = await place(options, over).then(
      () => undefined,
      (e: unknown) => e,
    );

    if (!(error instanceof PlacementError)) throw new Error(`not refused: ${String(error)}`);
    expect(error.complaint).toMatchObject({ path, message });
  });

  it('refuses a runtime for a taskset that asks for none', async () => {
    const placer = await createPlacer(join(dir, 'tasks.yaml'), { runtime: 'local' });

    expect(() => placer.checkOptions()).toThrow('--runtime: no task of this taskset asks for');
  });

  it('takes a source beside the taskset only when it defines the environment', async () => {
    await writeFile(join(dir, 'env.py'), 'env = Environment("other")\n');
    await expect(place({})).rejects.toThrow(`Give --runtime with one of: local:${dir}/env.py,`);

    await writeFile(join(dir, 'tasks.py'), `env = Environment(\n    name='sums', version="1")\n`);
    expect(placement(task, sourcesBeside(join(dir, 'tasks.json')))).toEqual({
      words: `local:${dir}/tasks.py`,
      why: 'it defines environment "sums"',
    });
  });
});
