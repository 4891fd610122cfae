import type { Sandbox, User, Version } from '../../contracts/denv';
import type { TreeName } from '../drivers/driver';
import { DenvError } from '../errors';
import type { SandboxRow, VersionRow } from './rows';
import { targetOf } from './targets';

/** Rows as the API shows them. */

export function stoppedError(row: SandboxRow): DenvError {
  const why = row.stopped
    ? ` (${row.stopped.what}${row.stopped.detail ? `: ${row.stopped.detail}` : ''})`
    : '';
  return new DenvError('sandbox_stopped', `sandbox ${row.id} has stopped${why}`, {
    details: { stopped: row.stopped },
  });
}

const AGENT_UID = 1000;
/** The last moment that a date can be: an image's start version stays for ever. */
const LAST_MS = 8.64e15;

export function uidOfUser(user: User | undefined): number {
  return typeof user === 'number' ? user : AGENT_UID;
}

export function toSandbox(row: SandboxRow): Sandbox {
  return {
    id: row.id,
    state: row.state === 'deleting' ? 'deleted' : row.state,
    ports: Object.fromEntries(
      Object.entries(row.ports).map(([port, host]) => [port, `127.0.0.1:${host}`]),
    ),
    version: row.version,
    reproducible: row.spec.reproducible,
    forkedFrom: row.forkedFrom,
    labels: row.labels,
    createdAt: new Date(row.createdAt).toISOString(),
    leaseUntil: new Date(row.leaseUntil).toISOString(),
    controller: {
      kind: row.spec.controller.kind,
      ready: row.controller.ready,
      ...(row.controller.hud ? { hud: row.controller.hud } : {}),
    },
    target: targetOf(row.spec.image),
    stopped: row.stopped,
  };
}

export const treeName = ({ id, base }: Pick<VersionRow, 'id' | 'base'>): TreeName =>
  base === null ? { kind: 'version', versionId: id } : { kind: 'base', base };

export function toVersion(
  row: VersionRow,
  found: { bytes?: number | null; usedBy?: string[] } = {},
): Version {
  return {
    id: row.id,
    sandbox: row.sandbox,
    createdAt: new Date(row.createdAt).toISOString(),
    retainUntil: new Date(Math.min(row.retainUntil, LAST_MS)).toISOString(),
    reproducible: row.spec.reproducible,
    labels: row.labels,
    pausedMs: row.pausedMs,
    flushMs: row.flushMs,
    bytes: found.bytes ?? null,
    usedBy: found.usedBy ?? [],
  };
}
