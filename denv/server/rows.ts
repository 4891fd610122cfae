import { z } from 'zod';
import { HudEnvironment, Labels, StopEvidence } from '../../contracts/denv';

/** What the journal keeps: each row is written as its type and parsed by its schema when it is read. */

/** The source of a sandbox's tree, as drivers/driver.ts means it. */
const ImageSource = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('host') }),
  z.object({ kind: z.enum(['dir', 'tar']), path: z.string() }),
  z.object({ kind: z.literal('docker'), ref: z.string() }),
  z.object({ kind: z.literal('tcp'), address: z.string(), shared: z.number() }),
]);

const command = z.array(z.string());

const ControllerRuntime = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('shell'), uid: z.number() }),
  z.object({
    kind: z.literal('mcp-http'),
    command: command.nullable(),
    port: z.number(),
    path: z.string(),
    uid: z.number(),
    timeoutS: z.number(),
  }),
  z.object({ kind: z.literal('mcp-stdio'), command, uid: z.number(), timeoutS: z.number() }),
  z.object({
    kind: z.literal('hud'),
    command: command.nullable(),
    port: z.number(),
    uid: z.number(),
    timeoutS: z.number(),
  }),
]);
export type ControllerRuntime = z.infer<typeof ControllerRuntime>;

/** What a sandbox is made of, as resolved at its create; forks and versions inherit it. */
const RuntimeSpec = z.object({
  image: ImageSource,
  base: z.string(),
  digest: z.string(),
  reproducible: z.boolean(),
  env: z.record(z.string(), z.string()),
  workdir: z.string(),
  uid: z.number(),
  caps: z.object({ cpus: z.number(), memoryMb: z.number(), pids: z.number() }),
  command: command.nullable(),
  controller: ControllerRuntime,
});
export type RuntimeSpec = z.infer<typeof RuntimeSpec>;

/** What a later server process needs to take up a controller's connection. */
const ControllerState = z.object({
  execId: z.string().nullable(),
  ready: z.boolean(),
  sessionId: z.string().nullable(),
  protocolVersion: z.string().nullable(),
  /** What a HUD environment said of itself. */
  hud: HudEnvironment.optional(),
  /** Keys of the one `hud/start` and the one `hud/grade` that this sandbox has had. */
  hudStart: z.string().optional(),
  hudGrade: z.string().optional(),
});

export const SandboxRow = z.object({
  id: z.string(),
  key: z.string(),
  state: z.enum(['creating', 'running', 'stopped', 'deleting', 'deleted']),
  spec: RuntimeSpec,
  version: z.string(),
  /** The last version that was taken of it, or that it was found to be the same as. */
  lastVersion: z.string().optional(),
  forkedFrom: z.object({ sandbox: z.string().nullable(), version: z.string() }).nullable(),
  labels: Labels,
  createdAt: z.number(),
  leaseUntil: z.number(),
  /** Seconds by which each call renews its lease. */
  leaseS: z.number(),
  controller: ControllerState,
  /** Sandbox port → host port. */
  ports: z.record(z.string(), z.number()),
  stopped: StopEvidence.nullable(),
  deletedAt: z.number().nullable(),
});
export type SandboxRow = z.infer<typeof SandboxRow>;

export const VersionRow = z.object({
  id: z.string(),
  sandbox: z.string().nullable(),
  /** Set for an image's start version: it is that base tree itself. */
  base: z.string().nullable(),
  spec: RuntimeSpec,
  createdAt: z.number(),
  retainUntil: z.number(),
  labels: Labels,
  pausedMs: z.number().nullable(),
  flushMs: z.number().nullable(),
});
export type VersionRow = z.infer<typeof VersionRow>;

export const OperationRow = z.object({
  key: z.string(),
  kind: z.string(),
  sandbox: z.string(),
  digest: z.string(),
  /** Everything a restarted server needs to redo or finish it. */
  request: z.unknown(),
  /** How far it is; written before each part that must not happen twice. */
  phase: z.record(z.string(), z.unknown()),
  state: z.enum(['running', 'done']),
  status: z.number(),
  body: z.unknown(),
});
export type OperationRow = z.infer<typeof OperationRow>;
