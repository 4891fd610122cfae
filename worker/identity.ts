import { createHash } from 'node:crypto';

/** Every event of a history repeats it, so a long host name is cut; a digest keeps hosts apart. */
export function workerIdentity(pid: number, host: string): string {
  if (host.length <= 16) return `${pid}@${host}`;
  return `${pid}@${host.slice(0, 8)}~${createHash('sha256').update(host).digest('hex').slice(0, 7)}`;
}
