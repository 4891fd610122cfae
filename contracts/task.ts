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
  z.strictObject({
    kind: z.literal('hud'),
    command: argv.optional(),
    port: z.number().int().min(1).max(65_535).optional(),
    user: user.optional(),
    timeoutS: seconds.optional(),
  }),
]);
export type TaskController = z.infer<typeof TaskController>;

/** Exactly one of `image`, `version` and `address`. */
export const Environment = z
  .strictObject({
    image: z.string().optional(),
    version: z.string().optional(),
    /** Of a control channel that somebody else started: `host:port`, on target `tcp`. */
    address: z
      .string()
      .regex(/^.+:\d+$/, 'host:port')
      .optional(),
    /** How many rollouts may be attached to that address at once; default 1. */
    shared: z.number().int().min(1).max(1000).optional(),
    /** A target of the denv server: `linux`, `docker`, `tcp`. Its first one when left out. */
    target: z.string().optional(),
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
  .refine((e) => [e.image, e.version, e.address].filter((v) => v !== undefined).length === 1, {
    message: 'give exactly one of `image`, `version` and `address`',
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

/** What a HUD environment is asked for: one of its templates, with arguments. The prompt comes from its start. */
export const HudTask = z.strictObject({
  /** What the environment must call itself. */
  env: z.string().optional(),
  id: z.string().min(1),
  args: z.record(z.string(), z.unknown()).optional(),
  /** Capabilities, by name or protocol, that the task cannot do without. */
  capabilities: z.array(z.string()).optional(),
  /** A second task of the same environment, without an agent: its answer is the first one's grade, its reward counts. */
  verifier: z
    .strictObject({ id: z.string().min(1), args: z.record(z.string(), z.unknown()).optional() })
    .optional(),
  startTimeoutS: seconds.optional(),
  gradeTimeoutS: seconds.optional(),
  /** What a task counts as that the agent left without a grade (it killed its own environment, say). */
  noGrade: z.enum(['unscored', 'zero']).optional(),
});
export type HudTask = z.infer<typeof HudTask>;

const graderName = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/);
/** Positive weights are normalised to 1; a negative one is a penalty. Default 1. */
const graderWeight = z
  .number()
  .refine((w) => w !== 0, 'not 0')
  .optional();

export const Criterion = z.union([
  z.string().min(1),
  z.strictObject({ text: z.string().min(1), weight: graderWeight }),
]);

/** One way to a named reward. Only `verify` is computed where the agent could not write. */
export const Grader = z.discriminatedUnion('kind', [
  /** The task's `verifier`, by denv verify. */
  z.strictObject({ kind: z.literal('verify'), name: graderName.optional(), weight: graderWeight }),
  /** The HUD task's own grade. */
  z.strictObject({ kind: z.literal('hud'), name: graderName.optional(), weight: graderWeight }),
  /** Exit code 0 is 1, any other 0. Runs in the agent's sandbox, as its user, after the agent. */
  z.strictObject({
    kind: z.literal('bash'),
    name: graderName,
    weight: graderWeight,
    command: z.string().min(1),
    cwd: absolute.optional(),
    timeoutS: seconds.optional(),
  }),
  /** A model is asked about the answer, once for each criterion. */
  z.strictObject({
    kind: z.literal('judge'),
    name: graderName,
    weight: graderWeight,
    /** As `--model` names one. */
    model: z.string().min(1),
    baseUrl: z.string().optional(),
    question: z.string().optional(),
    criteria: z.array(Criterion).min(1),
  }),
]);
export type Grader = z.infer<typeof Grader>;

export const Grading = z.strictObject({
  /** `weighted` sum (default), `any`: the best of them, `all`: the worst. */
  combine: z.enum(['weighted', 'any', 'all']).optional(),
  graders: z.array(Grader).min(1),
});
export type Grading = z.infer<typeof Grading>;

export const Limits = z.strictObject({
  maxSteps: z.number().int().min(1).max(10_000).optional(),
  /** Of a whole rollout, prompt and completion. */
  maxTokens: z.number().int().positive().optional(),
  maxCostUsd: z.number().positive().optional(),
  /** Working time: model answers and tool calls. Downtime and rate-limit waits are not charged. */
  agentTimeoutS: seconds.optional(),
  /** Wall-clock time of an attempt from the moment its sandbox is ready; past it the agent is stopped, and graded. */
  runTimeoutS: seconds.optional(),
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

/**
 * How a continuation gets a controller that keeps state in memory. `snapshot`: it starts anew on the forked files. `replay`: the
 * start is made again, and the recorded tool calls are made again in it, at no model cost.
 */
export const ContinuationWay = z.enum(['snapshot', 'replay']);
export type ContinuationWay = z.infer<typeof ContinuationWay>;

/** Which of a rollout's versions are kept once it has ended: those of kept verdicts always are. */
export const KeepPolicy = z.enum(['final', 'all', 'best', 'none']);
export type KeepPolicy = z.infer<typeof KeepPolicy>;

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
  /** Default `snapshot`; of a HUD task `replay`. */
  continuation: ContinuationWay.optional(),
  keep: KeepPolicy.optional(),
  /** Offers the agent two tools more: `checkpoint`, and `rollback` to one of its own checkpoints. */
  checkpointTools: z.boolean().optional(),
  setup: z.array(argv).optional(),
  solution: z.array(argv).optional(),
  verifier: Verifier.optional(),
  hud: HudTask.optional(),
  /** Left out: the `verifier` gives the reward, with a HUD grade beside it as the named reward `hud`; without one, HUD does. */
  grading: Grading.optional(),
  tags: z.record(z.string(), z.string()).optional(),
};

export const TaskRow = z.strictObject({
  /** Part of workflow ids: letters, digits, `.`, `_`, `-`. */
  id: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/, 'letters, digits, ".", "_" and "-", at most 100'),
  /** Needed unless `hud` is there, whose start gives it. */
  prompt: z.string().min(1).optional(),
  ...taskFields,
});
export type TaskRow = z.infer<typeof TaskRow>;

/** A row whose defaults have been merged in: an environment is there, a prompt, and something that gives a reward. */
export const Task = TaskRow.extend({ environment: Environment })
  .refine((t) => t.prompt !== undefined || t.hud !== undefined, {
    message: 'give a text',
    path: ['prompt'],
    when: isObject,
  })
  .refine((t) => t.verifier !== undefined || t.hud !== undefined || t.grading !== undefined, {
    message: 'give a mapping of fields',
    path: ['verifier'],
    when: isObject,
  })
  .refine((t) => t.verifier !== undefined || !hasGrader(t.grading, 'verify'), {
    message: 'give one: a grader of kind `verify` needs it',
    path: ['verifier'],
  })
  .refine((t) => t.hud !== undefined || !hasGrader(t.grading, 'hud'), {
    message: 'give one: a grader of kind `hud` needs it',
    path: ['hud'],
  });
export type Task = z.infer<typeof Task>;

/** What is missing is told beside whatever else is wrong with a row. */
function isObject({ value }: { value: unknown }): boolean {
  return typeof value === 'object' && value !== null;
}

function hasGrader(grading: Grading | undefined, kind: Grader['kind']): boolean {
  return grading?.graders.some((grader) => grader.kind === kind) ?? false;
}

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
