import { spawn } from 'node:child_process';
import type { ChildProcess, SpawnOptions } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { DenvError } from '../../errors';
import type { ExecHandle, ExecSpec } from '../driver';
import { at, findExecFiles, makeExecFiles, progressOf } from './exec-files';
import type { ExecFiles } from './exec-files';
import { openExecHandle } from './exec-handle';
import { checkId } from './layout';
import { execProcess } from './oci';
import { findProgram } from './processes';
import { runcArgs } from './runc';
import type { HostParts, Sandboxes } from './sandboxes';

/**
 * Execs, each in a cgroup of its own and held outside the server. conmon holds what has no input or a lasting one; it cannot
 * close stdin, so finite input is a file given to `runc exec` under a small shell that keeps the exit code.
 */
export function createExecs(parts: HostParts, sandboxes: Sandboxes) {
  const { layout, cgroups, records } = parts;

  async function start(sandboxId: string, execId: string, spec: ExecSpec): Promise<void> {
    const record = records.running(checkId(sandboxId));
    if (!record) {
      throw new DenvError('sandbox_stopped', `exec in sandbox ${sandboxId}: it does not run`);
    }
    const dir = records.execDirOf(sandboxId, checkId(execId));
    const finite = Buffer.isBuffer(spec.stdin) && spec.stdin.length > 0 ? spec.stdin : null;
    const files: ExecFiles = { dir, sandboxId, kind: finite ? 'plain' : 'held' };
    await rm(dir, { recursive: true, force: true }); // Half made by a starter that died.
    makeExecFiles(files, execProcess(spec, record.image), finite);
    cgroups.makeChild(sandboxes.cgroupOf(sandboxId), execId);
    if (finite) await startPlain(files, execId);
    else await startHeld(files, execId, spec.stdin === 'pipe');
  }

  async function startHeld(files: ExecFiles, execId: string, stdin: boolean): Promise<void> {
    const { dir, sandboxId } = files;
    const runc = findProgram('runc') ?? 'runc'; // conmon wants a whole path.
    const paths = ['-b', dir, '--exit-dir', dir, '-p', at(files, 'pid')];
    const args = ['--api-version', '1', '-c', sandboxId, '-n', sandboxId, '-u', execId].concat(
      ['-r', runc, `--runtime-arg=--root=${layout.runcRoot}`, '--full-attach', ...paths],
      ['-P', at(files, 'holder.pid'), '-l', `k8s-file:${at(files, 'out/log')}`, '--no-sync-log'],
      ['--log-level', 'error', ...(stdin ? ['-i', '--leave-stdin-open'] : [])],
      ['-e', '--exec-process-spec', at(files, 'process.json')],
      ['--runtime-opt=--cgroup', `--runtime-opt=${execId}`],
    );
    // What conmon says of the start goes to a file, not a pipe: it is there for the next server too.
    const sync = openSync(at(files, 'sync'), 'a', 0o600);
    try {
      const env = { _OCI_SYNCPIPE: '3' };
      // conmon goes into the background by itself; its first process ends once the pid file is there.
      const code = await exitOf(
        launch('conmon', args, { env, stdio: ['ignore', 'ignore', 'ignore', sync] }),
      );
      if (code !== 0) throw new DenvError('internal', `conmon ended with ${code} for ${dir}`);
    } finally {
      closeSync(sync);
    }
  }

  async function startPlain(files: ExecFiles, execId: string): Promise<void> {
    const { dir, sandboxId } = files;
    // Built-ins only around runc: were the last command a program, the shell would become it and no longer be the holder.
    const script = 'd=$1; shift; echo $$ >"$d/holder.pid"; "$@"; echo $? >"$d/exit"';
    const runc = ['runc', ...runcArgs(layout, at(files, 'runc.log')), 'exec'];
    const options = ['--process', at(files, 'process.json'), '--cgroup', execId];
    const stdin = openSync(at(files, 'stdin'), 'r');
    const stdout = openSync(at(files, 'out/stdout'), 'a', 0o600);
    const stderr = openSync(at(files, 'out/stderr'), 'a', 0o600);
    try {
      const args = ['-c', script, 'sh', dir, ...runc, ...options, sandboxId];
      const child = launch('/bin/sh', args, { stdio: [stdin, stdout, stderr] });
      await new Promise((resolve, reject) => child.on('spawn', resolve).on('error', reject));
    } finally {
      for (const fd of [stdin, stdout, stderr]) closeSync(fd);
    }
  }

  async function open(sandboxId: string, execId: string): Promise<ExecHandle | null> {
    const dir = records.execDirOf(checkId(sandboxId), checkId(execId));
    const files = findExecFiles(dir, sandboxId);
    if (!files || progressOf(files).kind === 'never_started') return null;
    const cgroup = `${sandboxes.cgroupOf(sandboxId)}/${execId}`;
    return openExecHandle(files, { execId, cgroup, cgroups, records });
  }

  return { start, open };
}

function launch(command: string, args: string[], options: SpawnOptions): ChildProcess {
  const child = spawn(command, args, {
    ...options,
    detached: true,
    cwd: '/',
    // Nothing of the server's environment, which holds its key.
    env: { PATH: process.env.PATH, ...options.env },
  });
  child.unref();
  return child;
}

function exitOf(child: ChildProcess): Promise<number | null> {
  child.ref();
  return new Promise((resolve, reject) => child.on('exit', resolve).on('error', reject));
}
