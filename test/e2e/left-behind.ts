import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { layoutOf } from '../../denv/drivers/host/layout';

/** What a home's stack has left in the kernel once it is down: mounts, loop devices, cgroups and processes. */
export function leftBehind(home: string): string[] {
  const { cgroup, containerCgroup, dataDir, runtimeDir } = layoutOf(join(home, 'denv'));
  const places = [home, dataDir, runtimeDir];
  const isOurs = (text: string) => places.some((place) => text.includes(place));
  const mounts = readFileSync('/proc/mounts', 'utf8').split('\n').filter(isOurs);
  return [
    ...mounts.map((line) => `mount ${line}`),
    ...loopDevices().filter(isOurs),
    ...hierarchies()
      .flatMap((hierarchy) => [join(hierarchy, cgroup), join(hierarchy, containerCgroup)])
      .filter(exists)
      .map((path) => `cgroup ${path}`),
    ...processes()
      .filter(({ pid, words }) => pid !== process.pid && isOurs(words))
      .map(({ pid, words }) => `process ${pid}: ${words}`),
  ];
}

function loopDevices(): string[] {
  return readdirSync('/sys/block')
    .filter((name) => name.startsWith('loop'))
    .flatMap((name) => {
      const file = read(`/sys/block/${name}/loop/backing_file`);
      return file === null ? [] : [`loop device ${name} on ${file.trim()}`];
    });
}

/** Every cgroup hierarchy of the host, v1 and v2. */
function hierarchies(): string[] {
  return readFileSync('/proc/mounts', 'utf8')
    .split('\n')
    .map((line) => line.split(' '))
    .filter(([, , type]) => type === 'cgroup' || type === 'cgroup2')
    .map(([, path]) => path ?? '');
}

function processes(): { pid: number; words: string }[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({
      pid: Number(name),
      words: (read(`/proc/${name}/cmdline`) ?? '').replaceAll('\0', ' '),
    }));
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return null;
  }
}

const exists = (path: string): boolean => {
  try {
    readdirSync(path);
    return true;
  } catch {
    return false;
  }
};
