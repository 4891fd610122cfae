import { execFileSync, spawn } from 'node:child_process';
import { copyFileSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { command } from './command';
import { newKey, shellSandbox, withSandbox, type SandboxBench } from './context';
import { fill } from './fork-flat';
import { limitRow, median, ratioRow, timed } from './row';

const programs = ['/bin/sh', '/bin/sleep', '/bin/dd'];

/** Keeping a running sandbox as a version, against `docker commit` of a container with the same data. */
export const commit: SandboxBench = {
  name: 'commit',
  async run({ denv, dir, say, small }) {
    const sizeMb = small ? 8 : 1024;
    const times = small ? 1 : 3;
    const write = `dd if=/dev/zero of=/workspace/data bs=1M count=${sizeMb} conv=fsync`;
    const row = {
      name: 'commit',
      what: `a running sandbox with ${sizeMb} MB kept as a version`,
      unit: 'ms' as const,
    };
    return withSandbox(denv, shellSandbox, async ({ id }) => {
      const ours: number[] = [];
      for (let n = 0; n < times; n += 1) {
        await fill(denv, id, write);
        const { ms, value } = await timed(() => denv.snapshot(id, {}, { key: newKey('commit') }));
        ours.push(ms);
        await denv.deleteVersion(value.id);
      }
      const theirs = await dockerCommits({ dir, write, times, say });
      if (theirs === null) {
        return [limitRow({ ...row, notes: ['docker commit: no engine'] }, median(ours), 1000)];
      }
      return [ratioRow(row, ours, { what: 'docker commit', values: theirs }, 1)];
    });
  },
};

/** Null where no engine answers. */
async function dockerCommits(options: {
  dir: string;
  write: string;
  times: number;
  say: (line: string) => void;
}): Promise<number[] | null> {
  const { dir, write, times, say } = options;
  const answers = await command('docker', 'version', '--format', '{{.Server.Version}}').then(
    () => true,
    () => false,
  );
  if (!answers) return null;
  const name = `rollouts-bench-${process.pid}`;
  say('the same data in a container');
  await importImage(join(dir, 'commit-image'), name);
  try {
    await command(
      'docker',
      'run',
      '-d',
      '--name',
      name,
      '--network',
      'none',
      name,
      'sleep',
      '9000',
    );
    const values: number[] = [];
    for (let n = 0; n < times; n += 1) {
      await command('docker', 'exec', name, 'sh', '-c', write);
      const { ms, value } = await timed(() => command('docker', 'commit', name));
      values.push(ms);
      await command('docker', 'rmi', value.trim());
    }
    return values;
  } finally {
    await command('docker', 'rm', '-f', name).catch(() => undefined);
    await command('docker', 'rmi', name).catch(() => undefined);
  }
}

/** An image of a few of the host's programs and what they link to: nothing is pulled. */
async function importImage(tree: string, name: string): Promise<void> {
  const libraries = programs.flatMap(
    (program) => execFileSync('ldd', [program]).toString().match(/\/\S+/g) ?? [],
  );
  for (const file of new Set([...programs, ...libraries])) {
    mkdirSync(dirname(join(tree, file)), { recursive: true });
    copyFileSync(file, join(tree, file));
  }
  mkdirSync(join(tree, 'workspace'), { recursive: true });
  const tar = spawn('tar', ['-C', tree, '-c', '.'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const imported = spawn('docker', ['import', '-', name], {
    stdio: [tar.stdout, 'ignore', 'inherit'],
  });
  const code = await new Promise((resolve, reject) =>
    imported.on('error', reject).on('exit', resolve),
  );
  if (code !== 0) throw new Error(`docker import exited ${String(code)}`);
}
