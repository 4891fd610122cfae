import type { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import type { Target } from '../../contracts/denv';

/**
 * What makes sandboxes real. Every method is safe to call again after the server died in the middle of it: `create`,
 * `snapshot` and `runContainer` first roll back what an earlier try left half made. The driver holds no state that a new
 * process could not find again from the data directory and the kernel; ids come from the server and are unique for ever.
 *
 * Trees are named: `base` trees are prepared from an image and files and are read-only; a sandbox has one writable tree;
 * a version is a frozen tree. All are cheap snapshots of one another where the driver's fork is O(1).
 */
export interface SandboxDriver {
  readonly name: string;

  /** Takes hold of the data directory (mounts, helper processes). Idempotent; adopts what an earlier process left. */
  open(): Promise<void>;
  /** Lets go without touching sandboxes: they outlive the server. */
  close(): Promise<void>;
  /** Ends everything: every sandbox process, helper, mount and loop device. Data stays. Call after `open`. */
  shutdown(): Promise<void>;

  /** Each capability as shown by a probe on this host, not as declared. */
  probe(): Promise<Target>;
  /** Free bytes for sandbox data on the host. */
  freeBytes(): Promise<number>;

  /**
   * The prepared read-only tree for an image with files unpacked over it; made once and kept.
   * @throws DenvError image_not_found
   */
  prepareBase(
    image: ImageSource,
    files: FileArchive[],
  ): Promise<{ base: string; digest: string; reproducible: boolean }>;

  /** Makes the sandbox's tree from `from`, starts its PID 1 in its own namespaces and cgroup. */
  create(spec: SandboxSpec): Promise<void>;
  state(sandboxId: string): Promise<SandboxLiveness>;
  /** Kills every process of the sandbox and leaves its tree. */
  stop(sandboxId: string): Promise<void>;
  /** Kills and removes all of it, cgroups, port records and exec files included. Removing what is not there is success. */
  remove(sandboxId: string): Promise<void>;
  /** Ids of all sandboxes with a tree, a cgroup or a runtime record, for the sweep of what has no record. */
  list(): Promise<string[]>;

  /**
   * Freezes the sandbox, takes its tree as version `versionId`, and thaws it (or, with `stop`, kills every process while
   * frozen). Data written before is synced before the freeze. A version is complete when `hasVersion` says so.
   */
  snapshot(
    sandboxId: string,
    versionId: string,
    options: { stop: boolean },
  ): Promise<SnapshotTimings>;
  /**
   * Whether anything in the sandbox's tree has changed since it was `since`, which it was made from or which was taken of it.
   * Whatever was written before this is asked counts; in doubt the answer is yes.
   */
  changedSince(
    sandboxId: string,
    since: TreeName,
  ): Promise<{ changed: boolean; flushMs: number | null }>;
  hasVersion(versionId: string): Promise<boolean>;
  removeVersion(versionId: string): Promise<void>;
  listVersions(): Promise<string[]>;
  /** Bytes of file content on disk that no other tree shares; null when it cannot be told. */
  versionBytes(versionId: string): Promise<number | null>;
  /**
   * Files that differ between two frozen trees, by content, in the order of their paths: at most `limit` of them, and how many
   * more there are. No link is followed.
   * @throws DenvError invalid_request when they are too large to be compared in reasonable time
   */
  diff(a: TreeName, b: TreeName, limit: number): Promise<TreeDiff>;
  /** Host path of the frozen tree, root-only, for the collector. Nothing may be written there. */
  versionPath(versionId: string): string;
  /** The same for a base tree: an image's untouched start version. */
  basePath(base: string): string;

  /**
   * Starts one exec, held outside the server: its output, stdin and exit code are there for the next server process.
   * @throws DenvError sandbox_stopped
   */
  startExec(sandboxId: string, execId: string, spec: ExecSpec): Promise<void>;
  /** A handle on an exec started by this or an earlier server process; null when it never started. */
  openExec(sandboxId: string, execId: string): Promise<ExecHandle | null>;

  /**
   * Starts one exec on streams of this process, and so for as long as it lives.
   * @throws DenvError sandbox_stopped
   */
  attachExec(sandboxId: string, execId: string, spec: AttachSpec): Promise<AttachedExec>;

  /** A TCP connection to a port inside the sandbox. */
  connect(sandboxId: string, port: number): Promise<Socket>;
  /** Publishes a sandbox port on loopback; the same `hostPort` again after a restart. Returns the host port. */
  publish(sandboxId: string, port: number, hostPort: number | null): Promise<number>;

  /**
   * Runs one throw-away container to its end over a snapshot of `base`: the verifier. Its tree is removed again.
   * Killed whole at `timeoutS`.
   */
  runContainer(spec: ContainerSpec): Promise<ContainerResult>;
  /** Removes what a died `runContainer` of that id left. */
  removeContainer(containerId: string): Promise<void>;
}

export type ImageSource =
  | { kind: 'host' }
  | { kind: 'dir' | 'tar'; path: string }
  /** An image that a Docker engine has. Its own process, or `SandboxSpec.main`, is what runs. */
  | { kind: 'docker'; ref: string }
  /** Something that already runs, and is only attached to: by at most `shared` sandboxes at once. */
  | { kind: 'tcp'; address: string; shared: number };

/** A tar archive to be unpacked at `to`. It may be large: it is read in pieces, and only where its tree is not made yet. */
export interface FileArchive {
  to: string;
  sha256: string;
  open: () => Readable;
}

/** A frozen tree: that of an image, or a version. */
export type TreeName = { kind: 'base'; base: string } | { kind: 'version'; versionId: string };

export interface TreeDiff {
  files: { path: string; change: 'added' | 'removed' | 'changed'; bytes: number }[];
  more: number;
}

export interface SandboxSpec {
  sandboxId: string;
  /** The frozen tree that the sandbox starts with. */
  from: TreeName;
  /** The image below, for trees that need binds of the host. */
  image: ImageSource;
  caps: { cpus: number; memoryMb: number; pids: number };
  /** What an image with a process of its own runs in its place (null: what the image says), and its environment. */
  main?: { argv: string[] | null; env: Record<string, string> };
}

export type SandboxLiveness =
  | { state: 'running'; oomKills: number }
  /** `hostRestart`: its processes belong to an earlier boot. */
  | { state: 'stopped'; oomKills: number; hostRestart: boolean }
  | { state: 'absent' };

export interface SnapshotTimings {
  /** Null when there was nothing to pause. */
  pausedMs: number | null;
  flushMs: number | null;
}

export interface ExecSpec {
  argv: string[];
  uid: number;
  cwd: string;
  env: Record<string, string>;
  /** Finite input; `pipe` keeps stdin open for `ExecHandle.write`; null is an empty stdin. */
  stdin: Buffer | 'pipe' | null;
}

export interface AttachSpec extends Omit<ExecSpec, 'stdin'> {
  /** A terminal of that size, which all three streams are: what is written to it comes out of stdout. */
  tty?: TerminalSize;
}

export interface TerminalSize {
  cols: number;
  rows: number;
}

export type ExecEnd =
  | { kind: 'exited'; exitCode: number }
  /** Killed by `kill()`, or by a signal that was not its own. */
  | { kind: 'killed' }
  /** The process that held it was killed, so nobody knows its exit code. */
  | { kind: 'lost' };

export interface ExecHandle {
  /** Resolves at the end of the main process. */
  ended(): Promise<ExecEnd>;
  /** Kills the whole tree of this exec and nothing else; resolves when it is empty. */
  kill(): Promise<void>;
  /** Output from its start, at most `maxBytes` of each stream. */
  output(maxBytes: number): Promise<{ stdout: Buffer; stderr: Buffer; truncated: boolean }>;
  /** Bytes of output so far, both streams. */
  outputBytes(): Promise<number>;
  /** Follows stdout from a log offset; `onData` gets bytes and the offset after them. Returns the function that stops it. */
  follow(fromOffset: number, onData: (stdout: Buffer, nextOffset: number) => void): () => void;
  /** Writes to a `pipe` stdin. */
  write(data: Buffer): Promise<void>;
  /** Closes watches and descriptors; the exec runs on. */
  release(): void;
  /** Removes its files; for an exec that has ended. */
  remove(): Promise<void>;
}

export interface AttachedExec {
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
  /** Gives its terminal another size. Only with `tty`. */
  resize?: (size: TerminalSize) => void;
  /** Resolves at the end of the main process; the streams may still hold its last words. */
  ended(): Promise<ExecEnd>;
  /** Kills whatever is left of its tree, and removes all traces. To be called in any case. */
  end(): Promise<void>;
}

export interface ContainerSpec {
  containerId: string;
  base: string;
  image: ImageSource;
  argv: string[];
  uid: number;
  env: Record<string, string>;
  timeoutS: number;
  caps: { cpus: number; memoryMb: number; pids: number };
  /** `CAP_DAC_READ_SEARCH` alone, ambient, or none. */
  readAll: boolean;
  /** All nosuid, nodev, noexec. */
  mounts: { source: string; target: string; readOnly: boolean }[];
}

export interface ContainerResult {
  exitCode: number | null;
  timedOut: boolean;
  /** The last bytes of stdout and stderr together. */
  outputTail: string;
  startMs: number;
  runMs: number;
}
