import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { ImageSource, SandboxDriver } from '../../../denv/drivers/driver';
import { createLinuxDriver } from '../../../denv/drivers/linux/driver';
import { actionsOn, archiveOf, tarOf } from '../driver-suite';

jest.setTimeout(60_000);

let dir: string;
let root: string;
let driver: SandboxDriver;

/** An image with a shell, a few programs and what they link to. */
function makeImage(name: string): string {
  const image = path.join(dir, 'images', name);
  const programs = ['/bin/sh', '/bin/cat', '/bin/ls', '/bin/sleep', '/usr/bin/id'];
  const libraries = programs.flatMap((program) =>
    execFileSync('ldd', [program]).toString().match(/\/\S+/g),
  );
  for (const file of new Set([...programs, ...libraries.map(String)])) {
    const at = path.join(image, file);
    mkdirSync(path.dirname(at), { recursive: true });
    copyFileSync(file, at);
  }
  mkdirSync(path.join(image, 'etc'));
  writeFileSync(path.join(image, 'etc/passwd'), 'root:x:0:0:root:/:/bin/sh'); // no newline at its end
  return image;
}

beforeAll(async () => {
  dir = mkdtempSync(path.join(tmpdir(), 'denv-images-'));
  root = path.join(dir, 'images');
  mkdirSync(root);
  driver = createLinuxDriver({
    dataDir: path.join(dir, 'data'),
    loopSizeGb: 4,
    imageRoots: [root],
  });
  await driver.open();
});

afterAll(async () => {
  await driver.shutdown();
  rmSync(dir, { recursive: true });
});

test.each(['dir', 'tar'] as const)(
  'an image from a %s has what a sandbox needs added, and is the same while its content is',
  async (kind) => {
    const tree = makeImage(`plain-${kind}`);
    const archive = `${tree}.tar`;
    execFileSync('tar', ['-C', tree, '-cf', archive, '.']);
    const image: ImageSource = { kind, path: kind === 'dir' ? tree : archive };
    const { newSandbox, sh } = actionsOn(driver, image);
    const id = await newSandbox();

    const { stdout, stderr } = await sh(
      id,
      'id; echo x > /workspace/x; echo x > /home/agent/x; echo x > /tmp/x; ls /; cat /etc/passwd',
    );
    const first = await driver.prepareBase(image, []);
    appendFileSync(path.join(tree, 'etc/passwd'), '\n');
    execFileSync('tar', ['-C', tree, '-cf', archive, '.']);
    const second = await driver.prepareBase(image, []);

    expect(stderr).toBe('');
    expect(stdout).toContain('uid=1000(agent) gid=1000(agent)');
    expect(stdout).toContain('root:x:0:0:root:/:/bin/sh\nagent:x:1000:1000');
    expect(stdout).not.toContain('verifier');
    expect(first).toMatchObject({ reproducible: true });
    expect(second.digest).not.toBe(first.digest);
    await driver.remove(id);
  },
);

test('a place for files that leads through a link of the image stays in the tree', async () => {
  const tree = makeImage('links');
  const outside = path.join(dir, 'outside');
  mkdirSync(outside);
  symlinkSync(outside, path.join(tree, 'way-out'));
  symlinkSync('../../../../../../../../../../etc', path.join(tree, 'climb'));
  const image: ImageSource = { kind: 'dir', path: tree };
  const tar = await tarOf([[{ name: 'file' }, 'here\n']]);
  const { newSandbox, sh } = actionsOn(driver, image);

  const id = await newSandbox([archiveOf('/way-out', tar), archiveOf('/climb/deep', tar)]);

  expect(await sh(id, `cat ${outside}/file /etc/deep/file`)).toMatchObject({
    stdout: 'here\nhere\n',
  });
  expect(existsSync(path.join(outside, 'file'))).toBe(false);
  expect(existsSync('/etc/deep')).toBe(false);
  await driver.remove(id);
});

test('an image without a shell is refused, and one outside the allowed directories is not looked at', async () => {
  mkdirSync(path.join(root, 'empty'));
  writeFileSync(path.join(root, 'a-file'), '');
  symlinkSync('/etc', path.join(root, 'link-out'));
  const prepare = (kind: 'dir' | 'tar', at: string) => driver.prepareBase({ kind, path: at }, []);

  await expect(prepare('dir', path.join(root, 'empty'))).rejects.toMatchObject({
    code: 'image_not_found',
    message: expect.stringContaining('has no /bin/sh'),
  });
  const noSleep = makeImage('no-sleep');
  rmSync(path.join(noSleep, 'bin/sleep'));
  await expect(prepare('dir', noSleep)).rejects.toMatchObject({
    message: expect.stringContaining('has no sleep'),
  });
  for (const at of ['/etc', path.join(root, '..'), path.join(root, 'link-out'), '/no/such']) {
    await expect(prepare('dir', at)).rejects.toMatchObject({
      code: 'image_not_found',
      message: expect.stringContaining('DENV_IMAGE_DIRS'),
    });
  }
  await expect(prepare('dir', path.join(root, 'a-file'))).rejects.toMatchObject({
    message: expect.stringContaining('is not a dir'),
  });
});

test('image host refuses files where the host is', async () => {
  const tar = await tarOf([[{ name: 'ls' }, 'not the real one']]);

  for (const to of ['/usr/local', '/bin', '/proc/x']) {
    await expect(driver.prepareBase({ kind: 'host' }, [archiveOf(to, tar)])).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('is not part of the tree'),
    });
  }
});

test('the probe shows each capability, and leaves nothing', async () => {
  expect(await driver.probe()).toEqual({
    name: 'linux',
    missing: null,
    exec: true,
    attach: true,
    userNamespaces: false,
    fork: 'O(1)',
    memoryFork: false,
    egressDeny: true,
    caps: { cpus: true, memoryMb: true, pids: true, diskMb: false },
    gpu: false,
    stdio: true,
    publish: true,
    separateVerify: true,
    images: ['host', 'dir', 'tar'],
    notes: expect.any(Array),
  });
  expect(await driver.list()).toEqual([]);
  expect(await driver.listVersions()).toEqual([]);
});

test('a base cannot be written, not even by root', async () => {
  const { base } = await driver.prepareBase({ kind: 'host' }, []);

  expect(() => writeFileSync(path.join(driver.basePath(base), 'x'), '')).toThrow('EROFS');
  expect(readFileSync(path.join(driver.basePath(base), 'etc/hostname'), 'utf8')).toBe('sandbox\n');
});
