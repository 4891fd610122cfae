import type { Logger } from 'pino';
import type { Archives } from './archives';
import type { Journal } from './journal';
import type { Operations } from './operations';
import type { OutputGuard } from './output-guard';
import type { Targets } from './targets';

export interface ServerSettings {
  dataDir: string;
  apiKey: string;
  /** Live sandboxes at once; past it a create answers over_capacity. */
  maxSandboxes: number;
  /** A create or fork is refused below this many free bytes on the host. */
  minFreeBytes: number;
  defaultLeaseS: number;
  versionRetentionS: number;
  /** What one process of a sandbox may write in all: past it, it is killed, so that it cannot fill the host's disk. */
  maxOutputBytes: number;
  defaultCaps: { cpus: number; memoryMb: number; pids: number };
}

/** What every part of the server works with. */
export interface ServerContext {
  settings: ServerSettings;
  journal: Journal;
  archives: Archives;
  operations: Operations;
  outputGuard: OutputGuard;
  /** All targets as one driver. */
  driver: Targets;
  log: Logger;
}

export const defaultSettings: Omit<ServerSettings, 'dataDir' | 'apiKey'> = {
  maxSandboxes: 500,
  minFreeBytes: 1024 ** 3,
  defaultLeaseS: 600,
  versionRetentionS: 7 * 86_400,
  maxOutputBytes: 512 * 1024 * 1024,
  defaultCaps: { cpus: 1, memoryMb: 1024, pids: 256 },
};
