import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { isAlive } from './processes';

const ServiceState = z.object({
  name: z.enum(['temporal', 'denv', 'worker']),
  state: z.enum(['starting', 'ready', 'waiting', 'stopped']),
  pid: z.number().nullable(),
  restarts: z.number(),
  /** What its last unplanned end was. */
  lastEnd: z.string().nullable(),
});
export type ServiceState = z.infer<typeof ServiceState>;

/** The running stack, as its supervisor writes it down for every other command. */
export const StackState = z.object({
  supervisor: z.object({ pid: z.number(), startTime: z.string().nullable() }),
  startedAt: z.string(),
  /** All services have answered once. */
  ready: z.boolean(),
  temporal: z.object({ address: z.string(), namespace: z.string(), ui: z.string().nullable() }),
  denv: z.object({
    address: z.string(),
    /** The folders it takes images from; null where somebody else runs it. */
    imageDirs: z.array(z.string()).nullable(),
  }),
  services: z.array(ServiceState),
});
export type StackState = z.infer<typeof StackState>;

const fileIn = (runFolder: string) => join(runFolder, 'stack.json');

/** Readers see the old state or the new one, never half of it. */
export function writeStackState(runFolder: string, state: StackState): void {
  const next = `${fileIn(runFolder)}.${process.pid}`;
  writeFileSync(next, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 });
  renameSync(next, fileIn(runFolder));
}

/** The state of a stack whose supervisor is alive, else null. */
export function readStackState(runFolder: string): StackState | null {
  try {
    const state = StackState.parse(JSON.parse(readFileSync(fileIn(runFolder), 'utf8')));
    return isAlive(state.supervisor) ? state : null;
  } catch {
    return null;
  }
}

export function removeStackState(runFolder: string): void {
  rmSync(fileIn(runFolder), { force: true });
}
