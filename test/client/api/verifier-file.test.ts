import { mkdtemp, mkdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { UsageError } from '../../../client/errors';
import { loadVerifier, withVerifier } from '../../../client/api/verifier-file';
import type { PackedTask } from '../../../contracts/task';
import { MemoryBlobs } from '../../fakes/memory-blobs';

describe('a verifier in a file of its own', () => {
  let dir: string;
  let blobs: MemoryBlobs;
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'verifier-'));
    blobs = new MemoryBlobs();
  });
  afterEach(() => rm(dir, { recursive: true, force: true }));

  async function load(name: string, text: string) {
    const file = join(dir, name);
    await writeFile(file, text);
    return loadVerifier(file, { imagesAreHere: true }, blobs);
  }

  it.each([
    [
      'fixed.yaml',
      'image: host\nfiles: [{from: ./v/check.sh, to: /verify/check.sh}]\ncommand: [sh, /verify/check.sh]\ntimeoutS: 5\n',
    ],
    [
      'fixed.json',
      JSON.stringify({
        image: 'host',
        files: [{ from: './v/check.sh', to: '/verify/check.sh' }],
        command: ['sh', '/verify/check.sh'],
        timeoutS: 5,
      }),
    ],
  ])('is read from %s, its files packed from its own folder', async (name, text) => {
    await mkdir(join(dir, 'v'));
    await writeFile(join(dir, 'v', 'check.sh'), 'echo 1 > /verdict/reward.txt');

    const { verifier, files } = await load(name, text);

    expect(verifier).toEqual({ image: 'host', command: ['sh', '/verify/check.sh'], timeoutS: 5 });
    expect(files).toMatchObject([{ to: '/verify' }]);
    expect(blobs.content.has(files[0]?.ref ?? '')).toBe(true);
  });

  it.each<[string, string, string | RegExp]>([
    ['v.yaml', 'image: host\n', 'v.yaml:1: command: missing; give a list'],
    [
      'v.yaml',
      'image: host\ncomand: [sh]\ncommand: [sh]\n',
      /v\.yaml:2: comand: unknown field; did you mean `command`\?/,
    ],
    ['v.yaml', 'image: none\ncommand: [sh]\n', /v\.yaml:1: image: "none" is no image/],
    [
      'v.yaml',
      'image: host\ncommand: [sh]\nnetwork: open\n',
      /v\.yaml:3: network: "open" is not supported/,
    ],
    [
      'v.yaml',
      'image: host\ncommand: [sh]\nfiles:\n  - {from: ./gone.sh, to: /verify/gone.sh}\n',
      /v\.yaml:4: files\[0\]\.from: there is no .*gone\.sh/,
    ],
    ['v.json', '{"image": }', /v\.json:1: malformed/],
    ['v.yaml', 'just words\n', 'does not fit'],
  ])('%s with %j is refused, by line and field', async (name, text, message) => {
    const loading = load(name, text);

    await expect(loading).rejects.toThrow(UsageError);
    await expect(loading).rejects.toThrow(message);
  });

  it('is refused when the file is not there', async () => {
    const file = join(dir, 'none.yaml');

    await expect(loadVerifier(file, { imagesAreHere: true }, blobs)).rejects.toThrow(
      `--verifier ${file} cannot be read`,
    );
  });

  it('takes the place of a task’s own, and changes what the task is', async () => {
    const packed: PackedTask = {
      id: 't',
      taskset: 's',
      digest: 'd',
      task: {
        id: 't',
        prompt: 'p',
        environment: { image: 'host' },
        verifier: { image: 'host', command: ['old'] },
      },
      environmentFiles: [{ to: '/app', ref: 'sha256:a', bytes: 1 }],
      verifierFiles: [{ to: '/verify', ref: 'sha256:b', bytes: 1 }],
    };
    const verifier = { image: 'host', command: ['new'] };

    const judging = withVerifier(packed, { verifier, files: [] });

    expect(judging).toEqual({
      ...packed,
      digest: expect.not.stringMatching(/^d$/),
      task: { ...packed.task, verifier },
      verifierFiles: [],
    });
  });
});
