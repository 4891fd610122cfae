import { createHash } from 'node:crypto';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import type { ImageSource } from '../driver';

/**
 * The image `host`: the host's programs, read-only, beside an /etc of our own. An allow-list: of the host there is /usr, what
 * /bin, /sbin and /lib* are, a few world-readable files of /etc that programs cannot do without, and one node binary.
 */

const topLevel = /^(bin|sbin|lib|lib32|lib64|libx32)$/;
const nodeTarget = '/opt/node/bin/node';

/** What programs read and no secret is in. Of a directory only what everybody may read is taken. */
const fromEtc = [
  /^alternatives$/,
  /^ld\.so\.(cache|conf|conf\.d)$/,
  /^(localtime|timezone|os-release|debian_version|locale\.alias|locale\.conf)$/,
  /^(mime\.types|magic|services|protocols|networks|host\.conf|gai\.conf|shells)$/,
  /^(profile|bash\.bashrc|inputrc|terminfo|fonts|perl|xdg)$/,
  /^python\d(\.\d+)?$/,
  /^java-\d+-openjdk$/,
  /^pki$/,
];
const fromSsl = ['certs', 'openssl.cnf', 'cert.pem'];

const passwd = `root:x:0:0:root:/root:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
agent:x:1000:1000:agent:/home/agent:/bin/sh
verifier:x:2000:2000:verifier:/tmp:/bin/sh
`;
const ownEtc: Record<string, string> = {
  passwd,
  group: 'root:x:0:\ntty:x:5:\nnogroup:x:65534:\nagent:x:1000:\nverifier:x:2000:\n',
  hosts: '127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n',
  'nsswitch.conf':
    'passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n',
  hostname: 'sandbox\n',
  'resolv.conf': '',
};

type Entry = { path: string; mode: number } & (
  { kind: 'dir' } | { kind: 'file'; data: Buffer } | { kind: 'link'; target: string }
);

/** Read-only binds of the host for a tree that was made from this image; none for other images. */
export function hostMounts(
  image: ImageSource,
  nodePath: string,
): { destination: string; type: string; source: string; options: string[] }[] {
  if (image.kind !== 'host') return [];
  const bind = (source: string, destination = source) => ({
    destination,
    type: 'bind',
    source,
    options: ['bind', 'ro', 'nosuid', 'nodev', 'private'],
  });
  const real = hostTopLevel().filter((name) => lstatSync(`/${name}`).isDirectory());
  return [bind('/usr'), ...real.map((name) => bind(`/${name}`)), bind(nodePath, nodeTarget)];
}

/** Stands for the files taken over, not for all of /usr: a host image is never called reproducible. */
export function hostDigest(nodePath: string): string {
  const hash = createHash('sha256');
  for (const entry of entries()) {
    const content = entry.kind === 'file' ? entry.data : entry.kind === 'link' ? entry.target : '';
    hash.update(`${entry.kind} ${entry.path} ${entry.mode}\n`).update(content);
  }
  const { size, mtimeMs } = statSync(nodePath);
  return hash.update(`${nodePath} ${size} ${mtimeMs}`).digest('hex');
}

/** Fills an empty tree. */
export function makeHostTree(root: string): void {
  for (const entry of entries()) {
    const at = path.join(root, entry.path);
    switch (entry.kind) {
      case 'dir':
        mkdirSync(at, { recursive: true });
        chmodSync(at, entry.mode);
        break;
      case 'file':
        writeFileSync(at, entry.data, { flag: 'wx' });
        chmodSync(at, entry.mode);
        break;
      case 'link':
        symlinkSync(entry.target, at);
        break;
    }
  }
  writeFileSync(path.join(root, nodeTarget), '', { flag: 'wx' });
}

/** Names at the host's root that belong to /usr, or link to it. */
export function hostTopLevel(): string[] {
  return readdirSync('/').filter((name) => topLevel.test(name));
}

function entries(): Entry[] {
  const links = hostTopLevel().map((name): Entry => {
    if (!lstatSync(`/${name}`).isSymbolicLink())
      return { path: `/${name}`, mode: 0o755, kind: 'dir' };
    return { path: `/${name}`, mode: 0o777, kind: 'link', target: readlinkSync(`/${name}`) };
  });
  const etc = readdirSync('/etc')
    .filter((name) => fromEtc.some((pattern) => pattern.test(name)))
    .sort()
    .flatMap((name) => walk(`/etc/${name}`));
  const ssl = fromSsl.flatMap((name) => walk(`/etc/ssl/${name}`));
  const dirs = ['/usr', '/opt', '/opt/node', '/opt/node/bin'];
  const own = Object.entries(ownEtc).map(([name, text]): Entry => ({
    path: `/etc/${name}`,
    mode: 0o644,
    kind: 'file',
    data: Buffer.from(text),
  }));
  return [
    ...links,
    ...dirs.map((dir): Entry => ({ path: dir, mode: 0o755, kind: 'dir' })),
    { path: '/etc', mode: 0o755, kind: 'dir' },
    ...etc,
    { path: '/etc/ssl', mode: 0o755, kind: 'dir' },
    ...ssl,
    ...own,
    { path: '/etc/mtab', mode: 0o777, kind: 'link', target: '/proc/self/mounts' },
  ];
}

function walk(at: string): Entry[] {
  const stat = lstatSync(at, { throwIfNoEntry: false });
  if (!stat) return [];
  if (stat.isSymbolicLink()) {
    return [{ path: at, mode: 0o777, kind: 'link', target: readlinkSync(at) }];
  }
  if ((stat.mode & 0o004) === 0) return [];
  if (stat.isFile()) {
    return [{ path: at, mode: stat.mode & 0o755, kind: 'file', data: readFileSync(at) }];
  }
  if (!stat.isDirectory()) return [];
  const inside = readdirSync(at).sort();
  return [
    { path: at, mode: stat.mode & 0o755, kind: 'dir' },
    ...inside.flatMap((name) => walk(path.join(at, name))),
  ];
}
