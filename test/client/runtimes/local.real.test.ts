import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { extract } from 'tar-stream';
import { createPlacer } from '../../../client/runtimes/placer';
import { createDirectoryBlobs } from '../../../stores/directory-blobs';

describe('the runtime local, with the package that setup:hud makes', () => {
  let dir: string;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'local-'));
    await mkdir(join(dir, 'env', '__pycache__'), { recursive: true });
    await writeFile(join(dir, 'env', '__pycache__', 'sums.pyc'), 'x');
    await writeFile(join(dir, 'env', 'sums.py'), 'env = Environment("sums")\n');
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  const task = {
    id: 't',
    env: 'sums',
    task: 'add',
    args: {},
    tags: {},
    image: null,
    runtime: null,
  };

  const placed = async (runtime: string, env?: string) =>
    (await createPlacer(join(dir, 'tasks.json'), { runtime, env })).place(task, null);

  it.each([
    ['env/sums.py', undefined, '/app/sums.py', 'sums'],
    ['env', undefined, '/app', 'sums'],
    ['env', 'other', '/app', 'other'],
  ])('serves %s with --env %p from %s', async (path, env, served, name) => {
    const { environment, config } = await placed(`subprocess:${join(dir, path)}`, env);

    expect(config).toEqual({});
    expect(environment).toEqual({
      image: 'host',
      env: { PYTHONPATH: '/opt/hud', HUD_TELEMETRY_ENABLED: 'false', PYTHONUNBUFFERED: '1' },
      workdir: '/app',
      controller: {
        kind: 'hud',
        command:
          `python3 -m hud.environment.server ${served} --host 127.0.0.1 --port 8765 --env ${name}`.split(
            ' ',
          ),
        port: 8765,
      },
    });
  });

  it('packs the folder so that the environment may write to it, and nothing that is no source', async () => {
    const blobs = createDirectoryBlobs(join(dir, 'blobs'));
    const { trees } = await placed(`local:${join(dir, 'env')}`);

    const app = await trees[1]!.pack(blobs);

    expect(app.to).toBe('/');
    expect(await entriesOf(await blobs.get(app.ref))).toEqual(['app 777', 'app/sums.py 666']);
  });

  it('packs the package once for a blob store', async () => {
    const blobs = createDirectoryBlobs(join(dir, 'blobs'));
    const { trees } = await placed(`local:${join(dir, 'env')}`);
    const packages = trees[0]!;

    const first = await packages.pack(blobs);
    const putStream = () => Promise.reject(new Error('packed again'));

    expect(first).toEqual({ to: '/opt/hud', ref: first.ref, bytes: first.bytes });
    expect(first.bytes).toBeGreaterThan(10 * 2 ** 20);
    expect(await packages.pack({ ...blobs, putStream })).toEqual(first);
  }, 120_000);
});

async function entriesOf(tar: Buffer): Promise<string[]> {
  const archive = extract();
  archive.end(tar);
  const entries: string[] = [];
  for await (const entry of archive) {
    entries.push(`${entry.header.name.replace(/\/$/, '')} ${(entry.header.mode ?? 0).toString(8)}`);
    entry.resume();
  }
  return entries;
}
