import { judgedVersion } from '../../rollouts/verdicts';
import { randomUUID } from 'node:crypto';
import { attach } from './attach';
import type { DenvPlace, Rollouts } from '../api/connect';
import { UserError } from '../errors';
import { readVersion } from '../api/fork-points';
import { readStanding } from '../api/rollout-status';
import type { Terminal } from './terminal';

export interface ShellRequest {
  rolloutId: string;
  /** The step before which to look. Left out: the version that was verified, or else the newest checkpoint. */
  step?: number;
  /** The command; a shell where it is left out. */
  argv?: string[];
  /** Ends the command early. The fork is deleted all the same. */
  stop: AbortSignal;
}

/** A fork whose process was killed lives this long at most. */
const leaseS = 60;

const shell = ['sh', '-c', 'if command -v bash >/dev/null; then exec bash; else exec sh; fi'];

/** Reads which version a shell opens in. @throws UserError when there is none */
export async function readShellVersion(
  rollouts: Rollouts,
  { rolloutId, step }: ShellRequest,
): Promise<string> {
  const standing = await readStanding(rollouts, rolloutId);
  if (step !== undefined) return readVersion(rollouts, standing, step);
  const result = (await rollouts.ledger.rollout(rolloutId))?.result ?? null;
  const version = judgedVersion(result) ?? standing.checkpoints.at(-1)?.version;
  if (version) return version;
  throw new UserError(
    `${rolloutId} has no version to open: it took no checkpoint, and nothing of it was verified`,
  );
}

/**
 * Runs a command in a fork of a version, on the streams of a terminal, and deletes the fork on every way out.
 * @returns the command's exit code; null when it was killed
 * @throws DenvError when the version is gone, or the command cannot be started
 */
export async function runInFork(
  rollouts: Pick<Rollouts, 'denv'>,
  place: DenvPlace,
  terminal: Terminal,
  { rolloutId, argv, stop, version }: ShellRequest & { version: string },
): Promise<{ exitCode: number | null }> {
  const { denv } = rollouts;
  const key = `shell/${randomUUID()}`;
  // It has no owner: no reaper answers for it, and its lease ends it when nobody holds this stream.
  const labels = { shellOf: rolloutId };
  const { children } = await denv.forkVersion(version, { labels, leaseS }, { key });
  const [child] = children;
  if (!child || 'error' in child) {
    throw new UserError(`${version} cannot be forked: ${child?.error.message ?? 'no child'}`);
  }
  try {
    return await run(place, child.sandbox.id, terminal, argv ?? shell, stop);
  } finally {
    await denv.deleteSandbox(child.sandbox.id);
  }
}

async function run(
  place: DenvPlace,
  sandboxId: string,
  terminal: Terminal,
  argv: string[],
  stop: AbortSignal,
): Promise<{ exitCode: number | null }> {
  if (stop.aborted) return { exitCode: null };
  const { tty } = terminal;
  const start = tty ? { argv, tty, env: { TERM: process.env['TERM'] ?? 'xterm' } } : { argv };
  const attached = await attach(place, sandboxId, start, terminal.outputs);
  const stopFeeding = terminal.feed(attached);
  try {
    return await Promise.race([attached.ended, stopped(stop)]);
  } finally {
    stopFeeding();
    attached.close();
  }
}

function stopped(stop: AbortSignal): Promise<{ exitCode: null }> {
  return new Promise((resolve) => {
    const end = (): void => resolve({ exitCode: null });
    if (stop.aborted) end();
    else stop.addEventListener('abort', end, { once: true });
  });
}
