import type { ContainerSpec, ExecSpec, ImageSource, SandboxSpec, TerminalSize } from '../driver';
import { hostMounts } from './host-image';
import { seccompProfile } from './seccomp';

/** The configuration files that runc reads: config.json of a container and process.json of an exec. */

/** PID 1 of a sandbox. It reaps: without that, orphans of killed execs would fill the pids limit as zombies. */
const initArgv = ['/bin/sh', '-c', 'while :; do sleep 1000000 & wait; done'];
/** Neither the agent nor a verifier runs as this uid, so neither may signal or trace PID 1. */
const initUid = 65534;

const systemPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

interface Mount {
  destination: string;
  type: string;
  source: string;
  options: string[];
}

const systemMounts: Mount[] = [
  mount('/proc', 'proc', ['nosuid', 'noexec', 'nodev']),
  mount('/dev', 'tmpfs', ['nosuid', 'noexec', 'strictatime', 'mode=755', 'size=65536k']),
  mount('/dev/pts', 'devpts', ['nosuid', 'noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620']),
  mount('/dev/shm', 'tmpfs', ['nosuid', 'noexec', 'nodev', 'mode=1777', 'size=67108864']),
  mount('/dev/mqueue', 'mqueue', ['nosuid', 'noexec', 'nodev']),
  mount('/sys', 'sysfs', ['nosuid', 'noexec', 'nodev', 'ro']),
];
const maskedPaths = [
  '/proc/acpi',
  '/proc/asound',
  '/proc/cmdline',
  '/proc/kcore',
  '/proc/keys',
  '/proc/latency_stats',
  '/proc/sched_debug',
  '/proc/scsi',
  '/proc/timer_list',
  '/proc/timer_stats',
  '/sys/firmware',
  '/sys/fs/cgroup',
];
const readonlyPaths = ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'];
const rlimits = [
  { type: 'RLIMIT_NOFILE', hard: 4096, soft: 4096 },
  { type: 'RLIMIT_CORE', hard: 0, soft: 0 },
];

export function sandboxConfig(
  spec: SandboxSpec,
  where: { rootfs: string; cgroup: string; nodePath: string },
): object {
  return config({
    name: spec.sandboxId,
    rootfs: where.rootfs,
    cgroup: where.cgroup,
    caps: spec.caps,
    process: processSpec({ argv: initArgv, uid: initUid, cwd: '/', env: { PATH: systemPath } }),
    mounts: hostMounts(spec.image, where.nodePath),
  });
}

export function containerConfig(
  spec: ContainerSpec,
  where: { rootfs: string; cgroup: string; nodePath: string },
): object {
  const binds = spec.mounts.map(({ source, target, readOnly }) => {
    const options = ['bind', readOnly ? 'ro' : 'rw', 'nosuid', 'nodev', 'noexec', 'private'];
    return { destination: target, type: 'bind', source, options };
  });
  const env = { ...defaultEnv(spec.image, spec.uid), ...spec.env };
  return config({
    name: spec.containerId,
    rootfs: where.rootfs,
    cgroup: where.cgroup,
    caps: spec.caps,
    process: processSpec(
      { argv: spec.argv, uid: spec.uid, cwd: '/', env },
      spec.readAll ? ['CAP_DAC_READ_SEARCH'] : [],
    ),
    mounts: [...hostMounts(spec.image, where.nodePath), ...binds],
  });
}

/** A whole process: nothing of config.json is taken over by an exec. */
export function execProcess(spec: ExecSpec, image: ImageSource, tty?: TerminalSize): object {
  const env = { ...defaultEnv(image, spec.uid), ...(tty ? { TERM: 'xterm-256color' } : {}) };
  const process = processSpec({ ...spec, env: { ...env, ...spec.env } });
  if (!tty) return process;
  return { ...process, terminal: true, consoleSize: { height: tty.rows, width: tty.cols } };
}

function defaultEnv(image: ImageSource, uid: number): Record<string, string> {
  return {
    PATH: image.kind === 'host' ? `/opt/node/bin:${systemPath}` : systemPath,
    HOME: uid === 1000 ? '/home/agent' : '/tmp',
    LANG: 'C.UTF-8',
  };
}

function processSpec(
  spec: { argv: string[]; uid: number; cwd: string; env: Record<string, string> },
  capabilities: string[] = [],
): object {
  return {
    terminal: false,
    user: { uid: spec.uid, gid: spec.uid },
    args: spec.argv,
    env: Object.entries(spec.env).map(([name, value]) => `${name}=${value}`),
    cwd: spec.cwd,
    capabilities: {
      bounding: capabilities,
      effective: capabilities,
      permitted: capabilities,
      inheritable: capabilities,
      ambient: capabilities,
    },
    noNewPrivileges: true,
    // The host's own processes are the last that the kernel picks when memory runs out.
    oomScoreAdj: 500,
    rlimits,
  };
}

function config(parts: {
  name: string;
  rootfs: string;
  cgroup: string;
  caps: { cpus: number; memoryMb: number; pids: number };
  process: object;
  mounts: Mount[];
}): object {
  const memory = parts.caps.memoryMb * 2 ** 20;
  return {
    ociVersion: '1.0.2',
    hostname: parts.name.slice(0, 60),
    root: { path: parts.rootfs, readonly: false },
    process: parts.process,
    mounts: [...systemMounts, ...parts.mounts],
    linux: {
      namespaces: ['pid', 'ipc', 'uts', 'mount', 'network'].map((type) => ({ type })),
      cgroupsPath: `/${parts.cgroup}`,
      maskedPaths,
      readonlyPaths,
      // Ports below 1024 without privileges: the network namespace is the sandbox's own.
      sysctl: { 'net.ipv4.ip_unprivileged_port_start': '0' },
      resources: {
        devices: [{ allow: false, access: 'rwm' }],
        memory: { limit: memory, swap: memory },
        pids: { limit: parts.caps.pids },
        cpu: { shares: 256, quota: Math.round(parts.caps.cpus * 100_000), period: 100_000 },
      },
      seccomp: seccompProfile(),
    },
  };
}

function mount(destination: string, type: string, options: string[]): Mount {
  return { destination, type, source: type, options };
}
