import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { DenvError } from '../../errors';
import type { AttachedExec, ExecEnd, ExecSpec } from '../driver';
import { checkId } from './layout';
import { execProcess } from './oci';
import { findProgram, sleep } from './processes';
import { runcArgs, runcError } from './runc';
import type { HostParts, Sandboxes } from './sandboxes';

/** Tells the cgroups of these from those of execs that outlive their server. */
const prefix = 'attached-';
/** How long a start that hangs is waited for once it is to be killed. */
const startGraceMs = 3_000;

/**
 * Execs on streams of this process. runc is their parent and holds the pipes, so with this process the streams end; what goes
 * on without them is ended by the next process.
 */
export function createAttachedExecs(parts: HostParts, sandboxes: Sandboxes) {
  const { layout, cgroups, records } = parts;

  async function attach(
    sandboxId: string,
    execId: string,
    spec: Omit<ExecSpec, 'stdin'>,
  ): Promise<AttachedExec> {
    const record = records.running(checkId(sandboxId));
    if (!record) {
      throw new DenvError('sandbox_stopped', `attach to sandbox ${sandboxId}: it does not run`);
    }
    const name = `${prefix}${checkId(execId)}`;
    const dir = records.execDirOf(sandboxId, name);
    const file = path.join(dir, 'process.json');
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const process = execProcess({ ...spec, stdin: null }, record.image);
    writeFileSync(file, JSON.stringify(process), { mode: 0o600 });
    cgroups.makeChild(sandboxes.cgroupOf(sandboxId), name);
    const log = path.join(dir, 'runc.log');
    const args = [...runcArgs(layout, log), 'exec', '--process', file, '--cgroup', name, sandboxId];
    return attached(sandboxId, name, startRunc(args), () => runcError(log));
  }

  function attached(
    sandboxId: string,
    name: string,
    child: ReturnType<typeof startRunc>,
    startError: () => string | null,
  ): AttachedExec {
    const cgroup = `${sandboxes.cgroupOf(sandboxId)}/${name}`;
    let killed = false;
    let cleaning: Promise<void> | null = null;
    const exit = exitOf(child);
    const ended = exit.then((code): ExecEnd => {
      const withSandbox = records.stoppedAtMs(sandboxId) !== null || !records.running(sandboxId);
      if (killed || code === null || (code === 137 && withSandbox)) return { kind: 'killed' };
      const refused = startError();
      if (refused === null) return { kind: 'exited', exitCode: code };
      return { kind: 'exited', exitCode: /not found|no such file/.test(refused) ? 127 : 126 };
    });

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

function startRunc(args: string[]) {
  return spawn(findProgram('runc') ?? 'runc', args, {
    cwd: '/',
    detached: true, // An interrupt at the server's terminal is not for them.
    env: { PATH: process.env.PATH }, // Nothing of the server's environment, which holds its key.
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}

/** Null when runc could not be started, or was killed. */
function exitOf(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve) => child.on('exit', resolve).on('error', () => resolve(null)));
}
