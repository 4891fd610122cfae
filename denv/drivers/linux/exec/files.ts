import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { isThere, readIfThere } from '../../../../machine/files';
import { readArguments } from '../../host/processes';

/**
 * The files of one exec: all that is known of it, for this process and the next.
 *   process.json   what runs
 *   holder.pid     conmon, which holds it
 *   sync           conmon's word on the start: {"data": PID} or {"data": -1, "message": ...}
 *   <sandboxId>    its exit code, in a file that conmon names after the sandbox
 *   stdin          its finite input; `feeding` (by which helper) once it is given, `fed` when all of it was
 *   killed         made before we kill it
 *   out/log        conmon's log
 */
export interface ExecFiles {
  dir: string;
  sandboxId: string;
  finiteInput: boolean;
}

export const at = (files: ExecFiles, name: string): string => path.join(files.dir, name);

const has = (files: ExecFiles, name: string): boolean => isThere(at(files, name));

export function makeExecFiles(files: ExecFiles, process: object, stdin: Buffer | null): void {
  mkdirSync(at(files, 'out'), { recursive: true, mode: 0o700 });
  if (stdin) writeFileSync(at(files, 'stdin'), stdin, { mode: 0o600 });
  writeFileSync(at(files, 'process.json'), JSON.stringify(process), { mode: 0o600 });
}

/** The files of an exec that was begun, or null. */
export function findExecFiles(dir: string, sandboxId: string): ExecFiles | null {
  const files = { dir, sandboxId, finiteInput: isThere(path.join(dir, 'stdin')) };
  return has(files, 'process.json') ? files : null;
}

export type ExecProgress =
  | { kind: 'never_started' }
  | { kind: 'running' }
  | { kind: 'exited'; exitCode: number; atMs: number }
  /** The runtime could not start it; `ofProgram`: for want of the program or directory, not of the sandbox. */
  | { kind: 'failed'; exitCode: number; message: string; ofProgram: boolean; atMs: number }
  | { kind: 'lost' };

/** How far an exec is, from its files and its holder. */
export function readProgress(files: ExecFiles): ExecProgress {
  // Looked at before the files: a holder that ends in between has left its last word in them.
  const holder = findHolder(files);
  const exitFile = at(files, files.sandboxId);
  const exit = readIfThere(exitFile)?.trim();
  const message = startFailure(files);
  if (message !== null) {
    const { mtimeMs: atMs } = statSync(at(files, 'sync'));
    const ofProgram = /exec: |executable file|chdir to cwd/.test(message);
    return { kind: 'failed', exitCode: toExitCode(message), message, ofProgram, atMs };
  }
  const input = readInput(files);
  if (input === 'broken') return { kind: 'lost' };
  if (exit && input === 'being given') return { kind: 'running' }; // Its helper is about to notice the end.
  if (exit) {
    return { kind: 'exited', exitCode: Number(exit), atMs: statSync(exitFile).mtimeMs };
  }
  if (holder === 'alive') return { kind: 'running' };
  return holder === 'gone' ? { kind: 'lost' } : { kind: 'never_started' };
}

/** `broken`: its helper died over it, and the exec saw an end that was none. */
function readInput(files: ExecFiles): 'none' | 'being given' | 'given' | 'broken' {
  if (!files.finiteInput || !has(files, 'feeding')) return 'none';
  if (has(files, 'fed')) return 'given';
  const helper = Number(readIfThere(at(files, 'feeding')) ?? 0);
  // Its pid is written just after the file is made; what is asked here is whether that helper is gone.
  if (helper === 0 || readArguments(helper).some((word) => word.endsWith('/portd.sock'))) {
    return 'being given';
  }
  return has(files, 'fed') ? 'given' : 'broken';
}

export const wasKilled = (files: ExecFiles): boolean => has(files, 'killed');

/** The process that holds the exec, while it lives. */
export function findHolderPid(files: ExecFiles): number | null {
  const pid = readHolderPid(files);
  return pid !== null && isHolder(pid, files) ? pid : null;
}

function findHolder(files: ExecFiles): 'alive' | 'gone' | 'none' {
  const pid = readHolderPid(files);
  if (pid !== null) return isHolder(pid, files) ? 'alive' : 'gone';
  // It may be about to write its pid, or its starter died before it was there.
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids.some((name) => isHolder(Number(name), files)) ? 'alive' : 'none';
}

function readHolderPid(files: ExecFiles): number | null {
  const pid = Number(readIfThere(at(files, 'holder.pid')) ?? 0);
  return pid > 0 ? pid : null;
}

/** A pid may be another process by now; the arguments tell, as they hold the exec's directory. */
const isHolder = (pid: number, files: ExecFiles): boolean =>
  readArguments(pid).some((word) => word === files.dir);

function startFailure(files: ExecFiles): string | null {
  const said = readIfThere(at(files, 'sync')) ?? '';
  if (!said.includes('\n') && !said.endsWith('}')) return null;
  const word = JSON.parse(said.split('\n')[0] ?? '') as { data: number; message?: string };
  return word.data < 0 ? runtimeWords(word.message || 'the runtime gave no reason') : null;
}

/** conmon passes on runc's log line; the reason is its `msg`. */
function runtimeWords(message: string): string {
  const quoted = /msg=("(?:[^"\\]|\\.)*")/.exec(message)?.[1];
  return quoted ? (JSON.parse(quoted) as string) : message.trim();
}

/** The exit code that a shell would give: 127 for a program that is not there, 126 for one that cannot be run. */
function toExitCode(message: string): number {
  const noProgram =
    /executable file not found|exec: .*no such file or directory|stat .*no such file/;
  return noProgram.test(message) && !/chdir to cwd/.test(message) ? 127 : 126;
}
