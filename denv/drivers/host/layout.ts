import { createHash } from 'node:crypto';
import { realpathSync } from 'node:fs';
import path from 'node:path';
import { DenvError } from '../../errors';

/** Where everything of one data directory is: all of it can be found again from the directory's name alone. */
export interface Layout {
  dataDir: string;
  /** The sparse file behind the loop mount; unused where the data directory is btrfs itself. */
  imageFile: string;
  /** Root of the btrfs file system with the trees below. */
  fsDir: string;
  bases: string;
  sandboxes: string;
  versions: string;
  containers: string;
  /** One directory a sandbox: its record, its runc bundle, its execs. Survives a reboot. */
  records: string;
  /** Sockets, locks and runc's state: worthless after a reboot. */
  runtimeDir: string;
  runcRoot: string;
  helperSocket: string;
  /** Below every cgroup hierarchy: parent of the sandboxes' cgroups. */
  cgroup: string;
  /** Parent of the throw-away containers' cgroups. */
  containerCgroup: string;
}

/** @param dataDir an existing directory */
export function layoutOf(dataDir: string): Layout {
  const real = realpathSync(dataDir);
  const hash = createHash('sha256').update(real).digest('hex').slice(0, 8);
  const fsDir = path.join(real, 'fs');
  const runtimeDir = `/run/denv-${hash}`;
  return {
    dataDir: real,
    imageFile: path.join(real, 'fs.img'),
    fsDir,
    bases: path.join(fsDir, 'bases'),
    sandboxes: path.join(fsDir, 'sandboxes'),
    versions: path.join(fsDir, 'versions'),
    containers: path.join(fsDir, 'containers'),
    records: path.join(real, 'run', 'sandboxes'),
    runtimeDir,
    runcRoot: path.join(runtimeDir, 'runc'),
    helperSocket: path.join(runtimeDir, 'portd.sock'),
    cgroup: `denv/${hash}`,
    containerCgroup: `denv/${hash}.containers`,
  };
}

/** Ids become names of directories, cgroups and runc containers, so they must be plain words. */
export function checkId(id: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/.test(id)) return id;
  throw new DenvError('invalid_request', `not an id: ${JSON.stringify(id)}`);
}
