import { z } from 'zod';

/**
 * Tasks as a person writes them, in YAML, JSON or JSONL. Unknown fields are refused by name. Paths in `files[].from` are
 * relative to the taskset's own folder; loading a taskset packs them into the blob store (`FilesRef`).
 */

const argv = z.array(z.string()).min(1);
const seconds = z.number().positive().max(86_400);
const absolute = z.string().regex(/^\//, 'an absolute path in the sandbox');

export const FileSource = z.strictObject({ from: z.string(), to: absolute });
export type FileSource = z.infer<typeof FileSource>;

const user = z.union([z.literal('agent'), z.number().int().min(1000).max(1999)]);

export const TaskController = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('shell'), user: user.optional() }),
  z.strictObject({
    kind: z.literal('mcp-http'),
    command: argv.optional(),
    port: z.number().int().min(1).max(65_535),
    path: z.string().regex(/^\//).optional(),
    user: user.optional(),
    timeoutS: seconds.optional(),
  }),
  z.strictObject({
    kind: z.literal('mcp-stdio'),
    command: argv,
    user: user.optional(),
    timeoutS: seconds.optional(),
  }),
]);
export type TaskController = z.infer<typeof TaskController>;

/** Exactly one of `image` and `version`. */
export const Environment = z
  .strictObject({
    image: z.string().optional(),
    version: z.string().optional(),
    files: z.array(FileSource).optional(),
    env: z.record(z.string(), z.string()).optional(),
    workdir: absolute.optional(),
    caps: z
      .strictObject({
        cpus: z.number().positive().optional(),
        memoryMb: z.number().int().min(16).optional(),
        pids: z.number().int().min(8).optional(),
        diskMb: z.number().int().positive().optional(),
      })
      .optional(),
    controller: TaskController.optional(),
  })
  .refine((e) => (e.image === undefined) !== (e.version === undefined), {
    message: 'exactly one of `image` and `version` is needed',
    path: ['image'],
  });
export type Environment = z.infer<typeof Environment>;

export const CollectEntry = z.union([
  absolute,
  z.strictObject({ path: absolute, exclude: z.array(z.string()).optional() }),
]);

export const Verifier = z.strictObject({
  image: z.string(),
  files: z.array(FileSource).optional(),
  command: argv,
  collect: z.array(CollectEntry).optional(),
  timeoutS: seconds.optional(),
  env: z.record(z.string(), z.string()).optional(),
  network: z.literal('deny').optional(),
  /** What a verifier without verdict counts as when the submission caused it. */
  noVerdict: z.enum(['unscored', 'zero']).optional(),
});
export type Verifier = z.infer<typeof Verifier>;

export const Limits = z.strictObject({
  maxSteps: z.number().int().min(1).max(10_000).optional(),
  /** Of a whole rollout, prompt and completion. */
  maxTokens: z.number().int().positive().optional(),
  maxCostUsd: z.number().positive().optional(),
  /** Working time: model answers and tool calls. Downtime and rate-limit waits are not charged. */
  agentTimeoutS: seconds.optional(),
  /** Of one tool call. */
  toolTimeoutS: seconds.optional(),
  maxAttempts: z.number().int().min(1).max(10).optional(),
});
export type Limits = z.infer<typeof Limits>;

/** When to take a checkpoint: before each step, before steps that may change something, before each Nth step, never. */
export const CheckpointPolicy = z.union([
  z.enum(['step', 'mutating', 'never']),
  z.number().int().min(1),
]);
export type CheckpointPolicy = z.infer<typeof CheckpointPolicy>;

export const AgentSettings = z.strictObject({
  systemPrompt: z.string().optional(),
  temperature: z.number().min(0).optional(),
  topP: z.number().min(0).max(1).optional(),
  seed: z.number().int().optional(),
  maxOutputTokens: z.number().int().positive().optional(),
  /** Sent with every model request, as it stands. */
  extraBody: z.record(z.string(), z.unknown()).optional(),
});
export type AgentSettings = z.infer<typeof AgentSettings>;

export const OutcomeUnknownPolicy = z.enum(['restore', 'report', 'fail']);
export type OutcomeUnknownPolicy = z.infer<typeof OutcomeUnknownPolicy>;

const taskFields = {
  environment: Environment.optional(),
  limits: Limits.optional(),
  agent: AgentSettings.optional(),
  checkpoints: CheckpointPolicy.optional(),
  onOutcomeUnknown: OutcomeUnknownPolicy.optional(),
  setup: z.array(argv).optional(),
  solution: z.array(argv).optional(),
  verifier: Verifier.optional(),
  tags: z.record(z.string(), z.string()).optional(),
};

export const TaskRow = z.strictObject({
  /** Part of workflow ids: letters, digits, `.`, `_`, `-`. */
  id: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/, 'letters, digits, ".", "_" and "-", at most 100'),
  prompt: z.string().min(1),
  ...taskFields,
});
export type TaskRow = z.infer<typeof TaskRow>;

/** A row whose defaults have been merged in: environment and verifier are there. */
export const Task = TaskRow.extend({ environment: Environment, verifier: Verifier });
export type Task = z.infer<typeof Task>;

export const Taskset = z.strictObject({
  name: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/),
  defaults: z.strictObject(taskFields).optional(),
  tasks: z.array(TaskRow).min(1),
});
export type Taskset = z.infer<typeof Taskset>;

/** A packed file tree in the blob store: a tar archive. */
export const FilesRef = z.object({ to: z.string(), ref: z.string(), bytes: z.number() });
export type FilesRef = z.infer<typeof FilesRef>;

/**
 * A task ready to run anywhere: no path of the client's machine is left in it. Stored as one blob; workflows and activities
 * carry its ref. `digest` is over everything that makes the task what it is.
 */
export const PackedTask = z.object({
  id: z.string(),
  taskset: z.string(),
  digest: z.string(),
  task: Task,
  environmentFiles: z.array(FilesRef),
  verifierFiles: z.array(FilesRef),
});
export type PackedTask = z.infer<typeof PackedTask>;
