import type { ServerContext } from './context';
import type { Lifecycle } from './lifecycle';
import type { SandboxRow } from './rows';
import type { Sandboxes } from './sandboxes';
import type { Versions } from './versions';

const LIVENESS_MS = 2000;
const LEASE_MS = 5000;
const RETENTION_MS = 60_000;
const OUTCOMES_KEPT_MS = 24 * 3600 * 1000;

/**
 * What the server does unasked: notices sandboxes that ended, deletes those whose lease is over and that have no owner (an
 * owner's own reaper deletes the rest), and drops versions and outcomes past their retention.
 */
export function startSweeps(
  context: ServerContext,
  sandboxes: Sandboxes,
  lifecycle: Lifecycle,
  versions: Versions,
): () => void {
  const { journal, archives, log, operations } = context;

  async function liveness(): Promise<void> {
    await each(sandboxes.all(), (row) => sandboxes.checkAlive(row));
  }

  async function leases(): Promise<void> {
    const over = sandboxes
      .all()
      .filter((row) => row.leaseUntil < Date.now() && row.labels['owner'] === undefined)
      // A call that takes longer than the lease still renews it at its end.
      .filter((row) => !operations.runsOn(row.id));
    await each(over, async (row) => {
      log.info({ sandbox: row.id }, 'its lease is over and it has no owner: deleting');
      await lifecycle.remove(row.id);
    });
  }

  /** One after the other; what fails for one, as with an engine that is down, holds up no other. */
  async function each(rows: SandboxRow[], work: (row: SandboxRow) => Promise<void>): Promise<void> {
    for (const row of rows) {
      await work(row).catch((error: unknown) =>
        log.error({ err: error, sandbox: row.id }, 'sweep failed'),
      );
    }
  }

  async function retention(): Promise<void> {
    await versions.sweep();
    journal.sweep(Date.now() - OUTCOMES_KEPT_MS);
    await archives.sweep();
  }

  const timers = [
    every(LIVENESS_MS, liveness),
    every(LEASE_MS, leases),
    every(RETENTION_MS, retention),
  ];

  /** One run at a time: a slow one delays the next. */
  function every(ms: number, work: () => Promise<void>): NodeJS.Timeout {
    let busy = false;
    return setInterval(() => {
      if (busy) return;
      busy = true;
      work()
        .catch((error: unknown) => log.error({ err: error }, 'sweep failed'))
        .finally(() => {
          busy = false;
        });
    }, ms);
  }

  return () => {
    for (const timer of timers) clearInterval(timer);
  };
}
