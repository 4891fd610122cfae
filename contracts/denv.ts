import { z } from 'zod';

/**
 * The wire of the denv API under `/v1`: request, reply and error body of each call. Everything mutating takes an
 * `Idempotency-Key` header; what is not done within `wait` seconds answers 202 with an OperationPending body.
 * Sizes in MB mean 2^20 bytes, times are seconds; field names end in their unit.
 */

export const errorCodes = [
  'invalid_request', // 400: a field is missing, unknown or of the wrong type; `message` names it
  'unauthorized', // 401: no key, or a wrong one
  'sandbox_not_found', // 404: no sandbox of that id
  'version_not_found', // 404
  'operation_not_found', // 404
  'key_conflict', // 409: the key was used before, with another body
  'sandbox_stopped', // 409: its files are there, its processes are not
  'sandbox_gone', // 410: deleted before, or its create was cancelled by a DELETE
  'capability_missing', // 422: this target cannot do that
  'image_not_found', // 422
  'version_in_use', // 409: a sandbox runs from it, or an operation needs it
  'files_missing', // 422: a tree was given by a digest that this server does not hold: send the tar itself
  'controller_failed', // 422: not ready in time, or it broke its protocol before it was ready
  'outcome_unknown', // 409: the server died while the call was out; it may or may not have had its effect
  'rate_limited', // 429
  'over_capacity', // 503
  'disk_full', // 507
  'unavailable', // 503
  'internal', // 500
] as const;
export const ErrorCode = z.enum(errorCodes);
export type ErrorCode = z.infer<typeof ErrorCode>;

export const ErrorBody = z.object({
  error: z.object({
    code: ErrorCode,
    message: z.string(),
    details: z.record(z.string(), z.unknown()).optional(),
  }),
});
export type ErrorBody = z.infer<typeof ErrorBody>;

const treeRoot = z.string().regex(/^\//, 'an absolute path');

/**
 * A file tree for a sandbox: a tar archive, unpacked at `to` before the first process starts. Owned by root, modes kept. By
 * digest alone once the server holds it; where it does not, the answer is `files_missing` and nothing has happened.
 */
export const FileTree = z.union([
  z.strictObject({ to: treeRoot, tarBase64: z.string() }),
  z.strictObject({ to: treeRoot, sha256: z.string().regex(/^[0-9a-f]{64}$/, 'a SHA-256 in hex') }),
]);
export type FileTree = z.infer<typeof FileTree>;

export const Caps = z.strictObject({
  cpus: z.number().positive().max(64).optional(),
  memoryMb: z.number().int().min(16).optional(),
  pids: z.number().int().min(8).optional(),
  /** Refused until a target has earned the capability. */
  diskMb: z.number().int().positive().optional(),
});
export type Caps = z.infer<typeof Caps>;

/** `agent` is uid 1000; a number is that uid, 1000 to 1999. */
export const User = z.union([z.literal('agent'), z.number().int().min(1000).max(1999)]);
export type User = z.infer<typeof User>;

const argv = z.array(z.string()).min(1);
const envVars = z.record(z.string(), z.string());
const timeoutS = z.number().positive().max(86_400);

export const ControllerSpec = z.discriminatedUnion('kind', [
  /** Built in: tools `bash`, `read_file`, `write_file` over exec. What a sandbox has when none is asked for. */
  z.strictObject({
    kind: z.literal('shell'),
    user: User.optional(),
    timeoutS: timeoutS.optional(),
  }),
  z.strictObject({
    kind: z.literal('mcp-http'),
    command: argv.optional(),
    port: z.number().int().min(1).max(65_535),
    path: z.string().regex(/^\//).default('/mcp'),
    user: User.optional(),
    timeoutS: timeoutS.default(60),
  }),
  z.strictObject({
    kind: z.literal('mcp-stdio'),
    command: argv,
    user: User.optional(),
    timeoutS: timeoutS.default(60),
  }),
  /** A HUD environment, served by `command` (or by the target itself) on `port`. Ready once it has answered `hello`. */
  z.strictObject({
    kind: z.literal('hud'),
    command: argv.optional(),
    port: z.number().int().min(1).max(65_535).default(8765),
    user: User.optional(),
    timeoutS: timeoutS.default(240),
  }),
]);
export type ControllerSpec = z.infer<typeof ControllerSpec>;

export const Labels = z.record(z.string(), z.string().max(512));
export type Labels = z.infer<typeof Labels>;

const wait = z.number().min(0).max(60).optional();

export const CreateSandboxRequest = z.strictObject({
  /**
   * On target `linux`: `host`, `dir:PATH` or `tar:PATH`, paths on the server. On `docker`: what `docker run` takes. Exactly
   * one of `image`, `version` and `address`.
   */
  image: z.string().optional(),
  version: z.string().optional(),
  /** On target `tcp`: `host:port` of a control channel that somebody else started, and that nobody here stops. */
  address: z.string().optional(),
  /** On target `tcp`: how many sandboxes may be attached to that address at once. */
  shared: z.number().int().min(1).max(1000).optional(),
  /** A service that runs beside the controller for the sandbox's whole life. */
  command: argv.optional(),
  env: envVars.optional(),
  workdir: z.string().regex(/^\//).optional(),
  user: User.optional(),
  files: z.array(FileTree).optional(),
  /** Sandbox ports to publish on the server's loopback. */
  ports: z.array(z.number().int().min(1).max(65_535)).optional(),
  egress: z.literal('deny').optional(),
  caps: Caps.optional(),
  gpu: z.unknown().optional(),
  controller: ControllerSpec.optional(),
  labels: Labels.optional(),
  leaseS: z.number().int().min(5).max(86_400).optional(),
  target: z.string().optional(),
  wait,
});
export type CreateSandboxRequest = z.input<typeof CreateSandboxRequest>;
export type ParsedCreateSandboxRequest = z.output<typeof CreateSandboxRequest>;

export const SandboxState = z.enum(['creating', 'running', 'stopped', 'deleted']);
export type SandboxState = z.infer<typeof SandboxState>;

/** Why a sandbox is `stopped`: `inside` when its own processes or limits ended it, `outside` when denv or the host did. */
export const StopEvidence = z.object({
  by: z.enum(['inside', 'outside']),
  what: z.enum([
    'init_ended',
    'controller_ended',
    'oom_kill',
    'host_restart',
    'verify_stop',
    'stop_request',
  ]),
  at: z.string(),
  detail: z.string().optional(),
});
export type StopEvidence = z.infer<typeof StopEvidence>;

/** A capability as a HUD environment announces it; keys and tokens in its parameters stay in the server. */
export const HudCapability = z.object({
  name: z.string(),
  protocol: z.string(),
  /** On the environment's own loopback. */
  url: z.string(),
  /** `tools`: its tools are in `tools/list`; `address`: passed on as it is. */
  use: z.enum(['tools', 'address']),
  /** Of a workspace: what keeps the agent's commands apart from the environment's own process. */
  isolation: z.string().optional(),
});
export type HudCapability = z.infer<typeof HudCapability>;

export const HudEnvironment = z.object({
  name: z.string(),
  version: z.string().nullable(),
  capabilities: z.array(HudCapability),
});
export type HudEnvironment = z.infer<typeof HudEnvironment>;

export const Sandbox = z.object({
  id: z.string(),
  state: SandboxState,
  /** Published ports: sandbox port → `host:port`. */
  ports: z.record(z.string(), z.string()),
  /** The version this sandbox started from (for an image: the prepared start version). */
  version: z.string(),
  /** False where the image is the host's own files. */
  reproducible: z.boolean(),
  forkedFrom: z.object({ sandbox: z.string().nullable(), version: z.string() }).nullable(),
  labels: Labels,
  createdAt: z.string(),
  leaseUntil: z.string(),
  controller: z.object({
    kind: z.enum(['shell', 'mcp-http', 'mcp-stdio', 'hud']),
    ready: z.boolean(),
    /** What a HUD environment said of itself. */
    hud: HudEnvironment.optional(),
  }),
  /** Where it runs: a name of `GET /v1/targets`. */
  target: z.string().default('linux'),
  stopped: StopEvidence.nullable(),
});
export type Sandbox = z.infer<typeof Sandbox>;
export const SandboxList = z.object({ sandboxes: z.array(Sandbox) });
export type SandboxList = z.infer<typeof SandboxList>;

/** `changed`: before, and only when something in the tree has changed since its last version; else that one is answered. */
export const SnapshotWhen = z.enum(['before', 'after', 'changed']);

export const ExecRequest = z.strictObject({
  argv,
  user: User.optional(),
  cwd: z.string().regex(/^\//).optional(),
  env: envVars.optional(),
  stdin: z.string().optional(),
  timeoutS: timeoutS.default(600),
  /** Of each stream, from its start; the rest is dropped and `truncated` says so. */
  maxOutputBytes: z
    .number()
    .int()
    .min(0)
    .max(64 * 1024 * 1024)
    .default(1024 * 1024),
  snapshot: SnapshotWhen.optional(),
  wait,
});
export type ExecRequest = z.input<typeof ExecRequest>;
export type ParsedExecRequest = z.output<typeof ExecRequest>;

export const ExecReply = z.object({
  /** Null when it was killed: a timeout, the output limit, the sandbox's end. */
  exitCode: z.number().int().nullable(),
  stdout: z.string(),
  stderr: z.string(),
  truncated: z.boolean(),
  timedOut: z.boolean(),
  /** Wall-clock seconds the command ran, by the server's clock. */
  durationS: z.number(),
  /** The snapshot that was asked for. */
  version: z.string().optional(),
  /** Seconds spent on that snapshot, its flush to disk included and also apart. */
  snapshotS: z.number().optional(),
  flushS: z.number().optional(),
  /** With `snapshot: changed`: nothing had changed, so `version` is an earlier one. */
  unchanged: z.boolean().optional(),
});
export type ExecReply = z.infer<typeof ExecReply>;

export const callMethods = [
  'tools/list',
  'tools/call',
  'hud/tasks',
  'hud/start',
  'hud/grade',
  'hud/cancel',
] as const;

export const CallRequest = z.strictObject({
  /** `hud/…` are for a controller of kind `hud`: see HudStartParams and HudGradeParams. */
  method: z.enum(callMethods),
  params: z.record(z.string(), z.unknown()).default({}),
  timeoutS: timeoutS.default(600),
  /** A progress notification starts `timeoutS` anew. */
  resetTimeoutOnProgress: z.boolean().default(false),
  snapshot: SnapshotWhen.optional(),
  wait,
});
export type CallRequest = z.input<typeof CallRequest>;
export type ParsedCallRequest = z.output<typeof CallRequest>;

export const CallReply = z.object({
  /** The controller's result, as it came. Absent when it answered with an error or not in time. */
  result: z.record(z.string(), z.unknown()).optional(),
  /** The controller's own JSON-RPC error: data for the agent. */
  error: z
    .object({ code: z.number(), message: z.string(), data: z.unknown().optional() })
    .optional(),
  timedOut: z.boolean(),
  durationS: z.number(),
  version: z.string().optional(),
  snapshotS: z.number().optional(),
  flushS: z.number().optional(),
  /** With `snapshot: changed`: nothing had changed, so `version` is an earlier one. */
  unchanged: z.boolean().optional(),
});
export type CallReply = z.infer<typeof CallReply>;

/**
 * `hud/start`: begins one task. Its arguments are checked against the schema that the environment lists, before anything is
 * sent. A sandbox has one task in its whole life. The result is the environment's start frame: `{prompt, …}`.
 */
export const HudStartParams = z.strictObject({
  id: z.string(),
  args: z.record(z.string(), z.unknown()).default({}),
  /** Refused with `capability_missing` when the environment announces none of that name or protocol. */
  capabilities: z.array(z.string()).default([]),
  /** Refused with `invalid_request` when the environment calls itself otherwise. */
  env: z.string().optional(),
});

/**
 * `hud/grade`: at most once in a sandbox's life, whatever the key, and only after its own `hud/start`. A connection that
 * breaks under it is `outcome_unknown`, also for good. Result: HudGradeResult.
 */
export const HudGradeParams = z.strictObject({
  answer: z.unknown(),
  /** Started and graded after it, with its grade as the answer, on the same connection. */
  verifier: z
    .strictObject({ id: z.string(), args: z.record(z.string(), z.unknown()).default({}) })
    .optional(),
});

/**
 * Frames as they came, `score` a finite number. What JSON cannot say, or a double cannot hold, stands as
 * `{"$number": "NaN"}`, `"Infinity"`, `"-Infinity"` or the digits of an integer beyond 2^53.
 */
export const HudGradeFrame = z.looseObject({ score: z.number() });
export const HudGradeResult = z.object({
  grade: HudGradeFrame,
  verifier: HudGradeFrame.nullable(),
});
export type HudGradeResult = z.infer<typeof HudGradeResult>;

/** `data.kind` of an error of `hud/start` and `hud/grade`: whose fault it is. */
export const HudErrorKind = z.enum([
  /** No such task, or arguments that are not of its schema: nothing was sent. */
  'bad_task',
  /** The environment's own code raised. */
  'raised',
  /** The environment did not keep to the protocol, or a frame is past its 16 MiB. */
  'protocol',
]);
export type HudErrorKind = z.infer<typeof HudErrorKind>;

/**
 * `GET /v1/envs/{id}/attach`, upgraded to a WebSocket: one raw stream into a sandbox, half-closable, as long as the socket
 * lives. The client's first message is an AttachStart as text; the server answers `{"started": true}` or an ErrorBody and
 * closes. Then binary messages are bytes: to stdin or the port; and back with one byte before them, 1 for stdout or the port, 2
 * for stderr. Text messages: `{"eof": true}` (no more from this side), and at the end `{"exit": {"exitCode": 0 | null}}`.
 */
export const AttachStart = z.union([
  z.strictObject({
    argv,
    user: User.optional(),
    cwd: z.string().regex(/^\//).optional(),
    env: envVars.optional(),
    /** A terminal of that size: its output is all stdout, and `eof` is the ctrl-D that a person would type. `{"resize": {"cols": 100, "rows": 40}}` changes it. */
    tty: z
      .strictObject({
        cols: z.number().int().min(1).max(1000),
        rows: z.number().int().min(1).max(1000),
      })
      .optional(),
  }),
  /** A TCP connection to that port on the sandbox's own loopback. */
  z.strictObject({ port: z.number().int().min(1).max(65_535) }),
]);
export type AttachStart = z.infer<typeof AttachStart>;

export const SnapshotRequest = z.strictObject({
  labels: Labels.optional(),
  retentionS: z.number().int().positive().optional(),
  wait,
});
export type SnapshotRequest = z.infer<typeof SnapshotRequest>;

export const Version = z.object({
  id: z.string(),
  sandbox: z.string().nullable(),
  createdAt: z.string(),
  retainUntil: z.string(),
  reproducible: z.boolean(),
  labels: Labels,
  /** Milliseconds the sandbox stood still for it; null for a stopped sandbox or an image. */
  pausedMs: z.number().nullable(),
  flushMs: z.number().nullable(),
  /** What only this version holds on disk. Measured when it is asked for (`size=1`), null otherwise. */
  bytes: z.number().nullable().default(null),
  /** Ids of live sandboxes that were made from it. */
  usedBy: z.array(z.string()).default([]),
});
export type Version = z.infer<typeof Version>;

/** `GET /v1/versions?owner=&rolloutId=&sandbox=&size=1`: those taken of sandboxes; an image's start versions are not listed. */
export const VersionList = z.object({ versions: z.array(Version) });
export type VersionList = z.infer<typeof VersionList>;

/** `POST /v1/versions/{id}/retain`: moves the end of its retention, also to earlier. Idempotent, needs no key. */
export const RetainRequest = z.strictObject({ retentionS: z.number().int().positive() });
export type RetainRequest = z.infer<typeof RetainRequest>;

/** `GET /v1/versions/{a}/diff/{b}`: files that differ, by content; at most 1,000, and `more` says how many others do. */
export const VersionDiff = z.object({
  files: z.array(
    z.object({
      path: z.string(),
      change: z.enum(['added', 'removed', 'changed']),
      /** Of the file in b, or in a when it was removed. */
      bytes: z.number(),
    }),
  ),
  more: z.number(),
});
export type VersionDiff = z.infer<typeof VersionDiff>;

export const ForkRequest = z.strictObject({
  count: z.number().int().min(1).max(64).default(1),
  labels: Labels.optional(),
  leaseS: z.number().int().min(5).max(86_400).optional(),
  ports: z.array(z.number().int().min(1).max(65_535)).optional(),
  wait,
});
export type ForkRequest = z.input<typeof ForkRequest>;
export type ParsedForkRequest = z.output<typeof ForkRequest>;

export const ForkReply = z.object({
  version: z.string(),
  pausedMs: z.number().nullable(),
  children: z.array(
    z.union([z.object({ sandbox: Sandbox }), z.object({ error: ErrorBody.shape.error })]),
  ),
});
export type ForkReply = z.infer<typeof ForkReply>;

export const CollectPath = z.union([
  z.string().regex(/^\//, 'an absolute path'),
  z.strictObject({ path: z.string().regex(/^\//), exclude: z.array(z.string()).default([]) }),
]);

export const VerifierSpec = z.strictObject({
  image: z.string(),
  files: z.array(FileTree).optional(),
  command: argv,
  collect: z.array(CollectPath).default([]),
  timeoutS: timeoutS.default(600),
  env: envVars.optional(),
  network: z.literal('deny').optional(),
});
export type VerifierSpec = z.input<typeof VerifierSpec>;
export type ParsedVerifierSpec = z.output<typeof VerifierSpec>;

export const VerifyRequest = z.strictObject({
  verifier: VerifierSpec,
  /** Kill every process of the sandbox once it is frozen and snapshotted. Without it the sandbox goes on. */
  stop: z.boolean().default(true),
  labels: Labels.optional(),
  wait,
});
export type VerifyRequest = z.input<typeof VerifyRequest>;
export type ParsedVerifyRequest = z.output<typeof VerifyRequest>;

export const CollectedFile = z.object({ path: z.string(), bytes: z.number(), sha256: z.string() });

export const VerifyEvidence = z.object({
  principal: z.literal('verifier'),
  uid: z.number(),
  egress: z.literal('deny'),
  version: z.string(),
  reproducible: z.boolean(),
  image: z.object({ name: z.string(), digest: z.string() }),
  verifierDigest: z.string(),
  collected: z.array(CollectedFile),
  missing: z.array(z.string()),
  refused: z.object({ path: z.string(), why: z.string() }).nullable(),
  exitCode: z.number().nullable(),
  timedOut: z.boolean(),
  /** Why there is no verdict, in words; null when there is one. */
  noVerdict: z.string().nullable(),
  outputTail: z.string(),
  timings: z.record(z.string(), z.number()),
});
export type VerifyEvidence = z.infer<typeof VerifyEvidence>;

export const VerifyReply = z.object({
  version: z.string(),
  verdict: z.enum(['reward', 'refused', 'none']),
  /** Null unless a verdict gives one; 0 when the submission is refused. */
  reward: z.number().nullable(),
  /** Named rewards beside `reward`. */
  rewards: z.record(z.string(), z.number()),
  evidence: VerifyEvidence,
});
export type VerifyReply = z.infer<typeof VerifyReply>;

export const RenewRequest = z.strictObject({ leaseS: z.number().int().min(5).max(86_400) });
export type RenewRequest = z.infer<typeof RenewRequest>;

export const RecordEntry = z.object({
  seq: z.number(),
  at: z.string(),
  event: z.enum([
    'created',
    'forked',
    'snapshot',
    'verified',
    'stopped',
    'deleted',
    'lost',
    'restarted',
  ]),
  data: z.record(z.string(), z.unknown()),
});
export type RecordEntry = z.infer<typeof RecordEntry>;
export const DeploymentRecord = z.object({ sandbox: z.string(), entries: z.array(RecordEntry) });
export type DeploymentRecord = z.infer<typeof DeploymentRecord>;

export const OperationPending = z.object({ key: z.string(), state: z.literal('running') });
export const Operation = z.union([
  OperationPending.extend({ kind: z.string() }),
  z.object({
    key: z.string(),
    kind: z.string(),
    state: z.literal('done'),
    status: z.number(),
    body: z.unknown(),
  }),
]);
export type Operation = z.infer<typeof Operation>;

/** What a target can do, each shown by a probe on this host at start; `null` where it was not tried. */
export const Target = z.object({
  name: z.string(),
  /** Why nothing can be placed here now; null when it works. */
  missing: z.string().nullable().default(null),
  fork: z.enum(['O(1)', 'O(change)', 'none']),
  /** False on every target there is: processes start anew in a fork. */
  memoryFork: z.boolean(),
  egressDeny: z.boolean(),
  caps: z.object({
    cpus: z.boolean(),
    memoryMb: z.boolean(),
    pids: z.boolean(),
    diskMb: z.boolean(),
  }),
  gpu: z.boolean(),
  exec: z.boolean().default(false),
  stdio: z.boolean(),
  publish: z.boolean(),
  attach: z.boolean().default(false),
  /** Programs inside may make user namespaces, as HUD workspaces want for their own isolation. */
  userNamespaces: z.boolean().default(false),
  separateVerify: z.boolean(),
  images: z.array(z.string()),
  notes: z.array(z.string()),
});
export type Target = z.infer<typeof Target>;
export const TargetList = z.object({ targets: z.array(Target) });
export type TargetList = z.infer<typeof TargetList>;

export const Health = z.object({
  ok: z.boolean(),
  version: z.string(),
  pid: z.number(),
  sandboxes: z.number(),
  operationsRunning: z.number(),
});
export type Health = z.infer<typeof Health>;
