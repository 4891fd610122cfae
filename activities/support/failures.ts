import { ApplicationFailure, CancelledFailure } from '@temporalio/activity';
import { StopEvidence } from '../../contracts/denv';
import type { ErrorCode } from '../../contracts/denv';
import type { FailureClass } from '../../contracts/rollout';
import { ContractMismatchError, DenvError } from '../../denv/errors';
import { ModelError } from '../../models/model';
import { BlobNotFoundError } from '../../stores/blobs';

interface FailureRow {
  class: FailureClass;
  /** Asked again by Temporal, under the same key. */
  retryable: boolean;
  /** By what a rollout goes on when that did not help. */
  again: 'attempt' | 'never';
}

const infra = { class: 'infra', again: 'attempt' } as const;
const model = { class: 'model', again: 'never' } as const;
const task = { class: 'task', again: 'never', retryable: false } as const;

/** Every failure type: its class, whether the same key is asked again, and whether a new attempt follows. */
export const failureTable = {
  DenvUnavailable: { ...infra, retryable: true },
  DenvRateLimited: { ...infra, retryable: true },
  OverCapacity: { ...infra, retryable: true },
  DiskFull: { ...infra, retryable: true },
  StoreUnavailable: { ...infra, retryable: true },
  BlobNotFound: { ...infra, retryable: false, again: 'never' },
  Unauthorized: { ...infra, retryable: false, again: 'never' },
  SandboxNotFound: { ...infra, retryable: false },
  SandboxStopped: { ...infra, retryable: false },
  OutcomeUnknown: { ...infra, retryable: false },
  KeyConflict: { ...infra, retryable: false },
  ContractMismatch: { ...infra, retryable: false },
  WorkerShutdown: { ...infra, retryable: true },
  /** An error that nobody foresaw. */
  Unexpected: { ...infra, retryable: true },
  /** A recorded tool call, made again in a new sandbox, was answered differently. */
  ReplayDiverged: { ...infra, retryable: false, again: 'never' },
  ControllerFailed: { class: 'controller', retryable: false, again: 'attempt' },
  InvalidRequest: task,
  /** What a task itself does before its agent begins: its set-up commands, the start of a HUD environment's task. */
  SetupFailed: task,
  ImageNotFound: task,
  VersionNotFound: task,
  CapabilityMissing: task,
  ModelUnavailable: { ...model, retryable: true },
  ModelRateLimited: { ...model, retryable: true },
  ModelUnauthorized: { ...model, retryable: false },
  ModelRequestInvalid: { ...model, retryable: false },
  ModelRefused: { class: 'agent', retryable: false, again: 'never' },
  ContextOverflow: { class: 'agent', retryable: false, again: 'never' },
  /** Time was up while the model was asked. */
  RunTimeout: { class: 'agent', retryable: false, again: 'never' },
} as const satisfies Record<string, FailureRow>;
export type FailureType = keyof typeof failureTable;

/** A worker that shuts down lets go of what it waits for; the operation itself goes on. */
export class WorkerLetGoError extends Error {
  override readonly name = 'WorkerLetGoError';
}

/** What a workflow can read of a failure beside its type and message. */
export interface FailureDetails {
  class: FailureClass;
  again: 'attempt' | 'never';
  /** Of SandboxStopped: what ended it. */
  evidence?: StopEvidence;
  /** Of OutcomeUnknown and SandboxStopped: the version taken before the call, if one was. */
  version?: string;
}

const typeOfCode: Record<ErrorCode, FailureType> = {
  invalid_request: 'InvalidRequest',
  unauthorized: 'Unauthorized',
  sandbox_not_found: 'SandboxNotFound',
  version_not_found: 'VersionNotFound',
  operation_not_found: 'DenvUnavailable', // the server lost it before it began: the same key starts it
  key_conflict: 'KeyConflict',
  sandbox_stopped: 'SandboxStopped',
  sandbox_gone: 'SandboxNotFound',
  capability_missing: 'CapabilityMissing',
  image_not_found: 'ImageNotFound',
  version_in_use: 'InvalidRequest',
  // The sender answers it with the trees themselves; one that is still missing then is a bad request.
  files_missing: 'InvalidRequest',
  controller_failed: 'ControllerFailed',
  outcome_unknown: 'OutcomeUnknown',
  rate_limited: 'DenvRateLimited',
  over_capacity: 'OverCapacity',
  disk_full: 'DiskFull',
  unavailable: 'DenvUnavailable',
  internal: 'DenvUnavailable',
};

/** Any error as the failure that Temporal records. A cancellation and a failure that is one already pass untouched. */
export function toFailure(error: unknown): ApplicationFailure | CancelledFailure {
  if (error instanceof ApplicationFailure || error instanceof CancelledFailure) return error;
  if (error instanceof DenvError) {
    return failure(typeOfCode[error.code], error, {
      retryAfterS: error.retryAfterS,
      evidence: evidenceIn(error.details),
      version: versionIn(error.details),
    });
  }
  if (error instanceof ModelError) {
    return failure(error.code, error, { retryAfterS: error.retryAfterS });
  }
  if (error instanceof FoundError) return failure(error.type, error);
  if (error instanceof WorkerLetGoError) return failure('WorkerShutdown', error);
  if (error instanceof ContractMismatchError) return failure('ContractMismatch', error);
  if (error instanceof BlobNotFoundError) return failure('BlobNotFound', error);
  if (error instanceof Error && 'code' in error) return failure('StoreUnavailable', error);
  return failure('Unexpected', error instanceof Error ? error : new Error(String(error)));
}

/** A failure that an activity finds by itself. */
export class FoundError extends Error {
  override readonly name = 'FoundError';

  constructor(
    readonly type: FailureType,
    message: string,
  ) {
    super(message);
  }
}

interface FailureMore {
  retryAfterS?: number;
  nonRetryable?: boolean;
  evidence?: StopEvidence;
  version?: string;
}

/** As `toFailure`, for an error that the same key would only meet again, whatever its type. */
export function toFinalFailure(error: DenvError | ModelError): ApplicationFailure {
  const type = error instanceof DenvError ? typeOfCode[error.code] : error.code;
  return failure(type, error, { nonRetryable: true });
}

function failure(type: FailureType, cause: Error, more: FailureMore = {}): ApplicationFailure {
  const row = failureTable[type];
  const details: FailureDetails = {
    class: row.class,
    again: row.again,
    ...(more.evidence ? { evidence: more.evidence } : {}),
    ...(more.version ? { version: more.version } : {}),
  };
  return ApplicationFailure.create({
    type,
    message: cause.message.slice(0, 2000),
    nonRetryable: more.nonRetryable ?? !row.retryable,
    details: [details],
    cause,
    ...(more.retryAfterS === undefined ? {} : { nextRetryDelay: more.retryAfterS * 1000 }),
  });
}

/** The server puts the evidence of a stop into `details.stopped`. */
function evidenceIn(details: Record<string, unknown> | undefined): StopEvidence | undefined {
  const parsed = StopEvidence.safeParse(details?.stopped ?? details);
  return parsed.success ? parsed.data : undefined;
}

function versionIn(details: Record<string, unknown> | undefined): string | undefined {
  return typeof details?.version === 'string' ? details.version : undefined;
}
