import type { HudEnvironment, Labels, StopEvidence } from '../../contracts/denv';
import type { ImageSource } from '../drivers/driver';

/** What the journal keeps. */

/** What a sandbox is made of, as resolved at its create; forks and versions inherit it. */
export interface RuntimeSpec {
  image: ImageSource;
  base: string;
  digest: string;
  reproducible: boolean;
  env: Record<string, string>;
  workdir: string;
  uid: number;
  caps: { cpus: number; memoryMb: number; pids: number };
  command: string[] | null;
  controller: ControllerRuntime;
}

export type ControllerRuntime =
  | { kind: 'shell'; uid: number }
  | {
      kind: 'mcp-http';
      command: string[] | null;
      port: number;
      path: string;
      uid: number;
      timeoutS: number;
    }
  | { kind: 'mcp-stdio'; command: string[]; uid: number; timeoutS: number }
  | { kind: 'hud'; command: string[] | null; port: number; uid: number; timeoutS: number };

/** What a later server process needs to go on with a controller's connection. */
export interface ControllerState {
  execId: string | null;
  ready: boolean;
  sessionId: string | null;
  protocolVersion: string | null;
  /** What a HUD environment said of itself. */
  hud?: HudEnvironment;
  /** Keys of the one `hud/start` and the one `hud/grade` that this sandbox has had. */
  hudStart?: string;
  hudGrade?: string;
}

export interface SandboxRow {
  id: string;
  key: string;
  state: 'creating' | 'running' | 'stopped' | 'deleting' | 'deleted';
  spec: RuntimeSpec;
  version: string;
  /** The last version that was taken of it, or that it was found to be the same as. */
  lastVersion?: string;
  forkedFrom: { sandbox: string | null; version: string } | null;
  labels: Labels;
  createdAt: number;
  leaseUntil: number;
  /** Seconds by which each call renews its lease. */
  leaseS: number;
  controller: ControllerState;
  /** Sandbox port → host port. */
  ports: Record<string, number>;
  stopped: StopEvidence | null;
  deletedAt: number | null;
}

export interface VersionRow {
  id: string;
  sandbox: string | null;
  /** Set for an image's start version: it is that base tree itself. */
  base: string | null;
  spec: RuntimeSpec;
  createdAt: number;
  retainUntil: number;
  labels: Labels;
  pausedMs: number | null;
  flushMs: number | null;
}

export interface OperationRow {
  key: string;
  kind: string;
  sandbox: string;
  digest: string;
  /** Everything a restarted server needs to redo or finish it. */
  request: unknown;
  /** How far it is; written before each part that must not happen twice. */
  phase: Record<string, unknown>;
  state: 'running' | 'done';
  status: number;
  body: unknown;
}
