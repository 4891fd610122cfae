import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readIfThere } from './files';

/**
 * When a process started: clock ticks since boot, or whatever ps says where there is no /proc, as on macOS. With its pid it names
 * a process, as a pid alone may be another one's by now. Null when the process is gone or a zombie.
 * @throws Error when that could not be found out
 */
export function readStartTime(pid: number): string | null {
  const stat = readIfThere(`/proc/${pid}/stat`);
  if (stat === null) return existsSync('/proc/self/stat') ? null : startTimeByPs(pid);
  // The command name may hold blanks and brackets, so fields are counted after the last bracket.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  if (fields[0] === 'Z' || fields[0] === 'X') return null;
  return fields[19] ?? null;
}

function startTimeByPs(pid: number): string | null {
  let row: string;
  try {
    row = execFileSync('ps', ['-o', 'stat=,lstart=', '-p', String(pid)], { encoding: 'utf8' });
  } catch {
    return null; // ps ends with 1 when there is no such process.
  }
  const [state = 'Z', ...started] = row.trim().split(/\s+/);
  return state.startsWith('Z') ? null : started.join(' ');
}
