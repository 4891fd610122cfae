import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import type { ChildProcess } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { DenvError } from '../../../errors';
import type { AttachedExec, AttachSpec, ExecEnd, TerminalSize } from '../../driver';
import { checkId } from '../../host/layout';
import { execProcess } from '../oci';
import { findProgram } from '../../../../machine/programs';
import { findPython } from '../../host/programs';
import { runcArgs, runcError } from '../runc';
import type { HostParts, Sandboxes } from '../sandboxes';

/** Marks the cgroups of these execs, to tell them from those of execs that outlive their server. */
const prefix = 'attached-';
/** How long a start that hangs is waited for once it is to be killed. */
const startGraceMs = 3_000;

/**
 * Execs on streams of this process. runc is their parent and holds the pipes, so the streams end with this process; what runs on
 * without them is ended by the next process.
 */
export function createAttachedExecs(parts: HostParts, sandboxes: Sandboxes) {
  const { layout, cgroups, records } = parts;

  async function attach(
    sandboxId: string,
    execId: string,
    spec: AttachSpec,
  ): Promise<AttachedExec> {
    const record = records.running(checkId(sandboxId));
    if (!record) {
      throw new DenvError('sandbox_stopped', `attach to sandbox ${sandboxId}: it does not run`);
    }
    const name = `${prefix}${checkId(execId)}`;
    const dir = records.execDirOf(sandboxId, name);
    const file = path.join(dir, 'process.json');
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const process = execProcess({ ...spec, stdin: null }, record.image, spec.tty);
    writeFileSync(file, JSON.stringify(process), { mode: 0o600 });
    cgroups.makeChild(sandboxes.cgroupOf(sandboxId), name);
    const log = path.join(dir, 'runc.log');
    // A socket's path must be short.
    const socket = path.join(
      layout.runtimeDir,
      `${createHash('sha256').update(name).digest('hex').slice(0, 24)}.tty`,
    );
    const meeting = { socket, pidFile: path.join(dir, 'pid') };
    const args = [...runcArgs(layout, log), 'exec', '--process', file, '--cgroup', name, sandboxId];
    return attached(sandboxId, name, startRunc(args, spec.tty && { ...spec.tty, ...meeting }), () =>
      runcError(log),
    );
  }

  function attached(
    sandboxId: string,
    name: string,
    child: Held,
    startError: () => string | null,
  ): AttachedExec {
    const cgroup = `${sandboxes.cgroupOf(sandboxId)}/${name}`;
    let killed = false;
    let cleaning: Promise<void> | null = null;
    const exit = waitForExit(child);
    const ended = exit.then((code): ExecEnd => {
      const withSandbox = records.stoppedAtMs(sandboxId) !== null || !records.running(sandboxId);
      if (killed || code === null || (code === 137 && withSandbox)) return { kind: 'killed' };
      const refused = startError();
      if (refused === null) return { kind: 'exited', exitCode: code };
      return { kind: 'exited', exitCode: /not found|no such file/.test(refused) ? 127 : 126 };
    });
    ended.catch(() => undefined); // Whoever asks for it gets the error.

    async function end(): Promise<void> {
      killed = child.exitCode === null;
      const graceEnd = Date.now() + startGraceMs;
      let over = false;
      void exit.then(() => (over = true));
      // A process on its way in is not in the cgroup yet, so killing goes on until runc has seen its end.
      for (;;) {
        await cgroups.kill(cgroup);
        if (over) break;
        if (Date.now() > graceEnd) child.kill('SIGKILL');
        await sleep(2);
      }
      await tidy(sandboxId, name);
    }

    return {
      stdin: child.stdin,
      stdout: child.stdout,
      stderr: child.stderr,
      ...(child.sizes ? { resize: resizer(child.sizes) } : {}),
      ended: () => ended,
      end: () => (cleaning ??= end()),
    };
  }

  /** Kills what is left in its cgroup and removes all of it. */
  async function tidy(sandboxId: string, name: string): Promise<void> {
    const cgroup = `${sandboxes.cgroupOf(sandboxId)}/${name}`;
    if (cgroups.exists(cgroup)) {
      await cgroups.kill(cgroup);
      records.keepOomKills(sandboxId, name, cgroups.oomKills(cgroup));
      await cgroups.remove(cgroup);
    }
    await rm(records.execDirOf(sandboxId, name), { recursive: true, force: true });
  }

  /** Ends what a process that died had attached. */
  async function sweep(): Promise<void> {
    for (const id of cgroups.children(layout.cgroup)) {
      const names = cgroups.children(sandboxes.cgroupOf(id)).filter((n) => n.startsWith(prefix));
      for (const name of names) await tidy(id, name);
    }
  }

  return { attach, sweep };
}

/** runc, or what holds the terminal that runc runs on. */
type Held = ChildProcess & {
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
  sizes: Writable | null;
};

interface Terminal extends TerminalSize {
  /** Where runc hands it over. */
  socket: string;
  pidFile: string;
}

const terminalScript = path.join(__dirname, 'terminal.py');

/** Starts runc; for a terminal, a small program that holds the other side of it and starts runc. */
function startRunc(args: string[], tty: Terminal | undefined): Held {
  const runc = findProgram('runc') ?? 'runc';
  const where = tty ? [`${tty.cols}`, `${tty.rows}`, tty.socket, tty.pidFile] : [];
  const [command, ...rest]: [string, ...string[]] = tty
    ? [findPython(), '-I', '-S', '-B', terminalScript, ...where, runc, ...args]
    : [runc, ...args];
  const child = spawn(command, rest, {
    cwd: '/',
    detached: true, // An interrupt at the server's terminal is not for them.
    env: { PATH: process.env.PATH }, // Nothing of the server's environment, which holds its key.
    stdio: ['pipe', 'pipe', 'pipe', tty ? 'pipe' : 'ignore'],
  });
  const sizes = tty ? (child.stdio[3] as Writable) : null; // a pipe, as asked for
  sizes?.on('error', () => undefined); // It has ended.
  return Object.assign(child as Held, { sizes });
}

const resizer =
  (sizes: Writable) =>
  ({ cols, rows }: TerminalSize): void =>
    void sizes.write(`${cols} ${rows}\n`);

/** The exit code; null when runc could not be started, or was killed. */
function waitForExit(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => child.on('exit', resolve).on('error', () => resolve(null)));
}
