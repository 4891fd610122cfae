import { spawn } from 'node:child_process';
import type { ChildProcess, SpawnOptions } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { DenvError } from '../../../errors';
import type { ExecHandle, ExecSpec } from '../../driver';
import { at, findExecFiles, makeExecFiles, readProgress } from './files';
import type { ExecFiles } from './files';
import { HeldExec } from './handle';
import { checkId } from '../../host/layout';
import { execProcess } from '../oci';
import { findProgram } from '../../../../machine/programs';
import type { HostParts, Sandboxes } from '../sandboxes';

/**
 * Execs, each in a cgroup of its own and held by conmon, outside the server. A lasting stdin is a pipe that stays open; finite
 * input is given by the host helper, which then ends it.
 */
export function createExecs(parts: HostParts, sandboxes: Sandboxes) {
  const { layout, helper, cgroups, records } = parts;

  async function start(sandboxId: string, execId: string, spec: ExecSpec): Promise<void> {
    const record = records.running(checkId(sandboxId));
    if (!record) {
      throw new DenvError('sandbox_stopped', `exec in sandbox ${sandboxId}: it does not run`);
    }
    const dir = records.execDirOf(sandboxId, checkId(execId));
    const finite = Buffer.isBuffer(spec.stdin) && spec.stdin.length > 0 ? spec.stdin : null;
    const files: ExecFiles = { dir, sandboxId, finiteInput: finite !== null };
    await rm(dir, { recursive: true, force: true }); // Half made by a starter that died.
    makeExecFiles(files, execProcess(spec, record.image), finite);
    cgroups.makeChild(sandboxes.cgroupOf(sandboxId), execId);
    await startHeld(files, execId, stdinOptions(finite !== null, spec.stdin === 'pipe'));
    if (finite) await helper.feed(dir);
  }

  async function startHeld(files: ExecFiles, execId: string, stdin: string[]): Promise<void> {
    const { dir, sandboxId } = files;
    const runc = findProgram('runc') ?? 'runc'; // conmon wants a whole path.
    const paths = ['-b', dir, '--exit-dir', dir, '-p', at(files, 'pid')];
    const args = ['--api-version', '1', '-c', sandboxId, '-n', sandboxId, '-u', execId].concat(
      ['-r', runc, `--runtime-arg=--root=${layout.runcRoot}`, '--full-attach', ...paths],
      ['-P', at(files, 'holder.pid'), '-l', `k8s-file:${at(files, 'out/log')}`, '--no-sync-log'],
      ['--log-level', 'error', ...stdin],
      ['-e', '--exec-process-spec', at(files, 'process.json')],
      ['--runtime-opt=--cgroup', `--runtime-opt=${execId}`],
    );
    // What conmon says of the start goes to a file, not a pipe: it is there for the next server too.
    const sync = openSync(at(files, 'sync'), 'a', 0o600);
    try {
      const env = { _OCI_SYNCPIPE: '3' };
      // conmon goes into the background by itself; its first process ends once the pid file is there.
      const code = await waitForExit(
        launch('conmon', args, { env, stdio: ['ignore', 'ignore', 'ignore', sync] }),
      );
      if (code !== 0) throw new DenvError('internal', `conmon ended with ${code} for ${dir}`);
    } finally {
      closeSync(sync);
    }
  }

  async function open(sandboxId: string, execId: string): Promise<ExecHandle | null> {
    const dir = records.execDirOf(checkId(sandboxId), checkId(execId));
    const files = findExecFiles(dir, sandboxId);
    const progress = files && readProgress(files);
    if (!files || progress?.kind === 'never_started') return null;
    // Its starter may have died before it asked for this.
    if (files.finiteInput && progress?.kind === 'running') await helper.feed(dir);
    const cgroup = `${sandboxes.cgroupOf(sandboxId)}/${execId}`;
    return new HeldExec(files, { execId, cgroup, cgroups, records });
  }

  return { start, open };
}

function stdinOptions(finite: boolean, lasting: boolean): string[] {
  if (lasting) return ['-i', '--leave-stdin-open'];
  return finite ? ['-i'] : [];
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

function waitForExit(child: ChildProcess): Promise<number | null> {
  child.ref();
  return new Promise((resolve, reject) => child.on('exit', resolve).on('error', reject));
}
