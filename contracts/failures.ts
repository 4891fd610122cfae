// No schema here: the workflow bundle reads this table, and an import of zod would double it.

/** Who a failure is laid to: what decides whether a rollout without a reward counts, and as what. */
export const failureClasses = [
  'infra',
  'controller',
  'model',
  'agent',
  'verifier',
  'task',
  /** Somebody stopped it: counts like infra, in no mean, and is not tried again. */
  'cancelled',
] as const;

interface FailureRow {
  class: (typeof failureClasses)[number];
  /** Temporal tries the activity again, under the same key. */
  retryable: boolean;
  /** What follows once Temporal no longer tries: a new attempt of the rollout, in a new sandbox, or nothing. */
  again: 'attempt' | 'never';
}

const infra = { class: 'infra', retryable: false, again: 'attempt' } as const;
const outage = { ...infra, retryable: true } as const;
const model = { class: 'model', retryable: false, again: 'never' } as const;
const agent = { class: 'agent', retryable: false, again: 'never' } as const;
const task = { class: 'task', retryable: false, again: 'never' } as const;

/** Every failure type there is. A failure of another type does not compile where it is made. */
export const failureTable = {
  DenvUnavailable: outage,
  DenvRateLimited: outage,
  OverCapacity: outage,
  DiskFull: outage,
  /** The ledger or the blobs cannot be read or written now. */
  StoreUnavailable: outage,
  WorkerShutdown: outage,
  /** An error that nobody foresaw. */
  Unexpected: outage,
  SandboxNotFound: infra,
  SandboxStopped: infra,
  OutcomeUnknown: infra,
  KeyConflict: infra,
  ContractMismatch: infra,
  BlobNotFound: { ...infra, again: 'never' },
  Unauthorized: { ...infra, again: 'never' },
  /** A recorded tool call, made again in a new sandbox, was answered differently. */
  ReplayDiverged: { ...infra, again: 'never' },
  /** The workflow of a rollout ended without a result, as by a termination. */
  RolloutLost: { ...infra, again: 'never' },
  /** Nothing recorded a result for a declared rollout: it never started, or what it returned was never kept. */
  NoResult: { ...infra, again: 'never' },
  ControllerFailed: { class: 'controller', retryable: false, again: 'attempt' },
  ModelUnavailable: { ...model, retryable: true },
  ModelRateLimited: { ...model, retryable: true },
  ModelUnauthorized: model,
  ModelRequestInvalid: model,
  ModelRefused: agent,
  ContextOverflow: agent,
  AgentTimeout: agent,
  /** The time of the whole run was up, perhaps while the model was asked. */
  RunTimeout: agent,
  VerifierFailed: { class: 'verifier', retryable: false, again: 'never' },
  InvalidRequest: task,
  /** What a task itself does before its agent begins: its set-up commands, the start of a HUD environment's task. */
  SetupFailed: task,
  ImageNotFound: task,
  VersionNotFound: task,
  CapabilityMissing: task,
  Cancelled: { class: 'cancelled', retryable: false, again: 'never' },
} as const satisfies Record<string, FailureRow>;
export type FailureType = keyof typeof failureTable;

export const isFailureType = (name: string | null | undefined): name is FailureType =>
  typeof name === 'string' && Object.hasOwn(failureTable, name);

/** A failure of the class that its type usually has. */
export const newFailure = <Stage extends string>(
  type: FailureType,
  stage: Stage,
  message: string,
) => ({
  class: failureTable[type].class,
  type,
  stage,
  message,
});
