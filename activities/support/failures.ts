import { ApplicationFailure, CancelledFailure } from '@temporalio/activity';
import { StopEvidence } from '../../contracts/denv';
import type { ErrorCode } from '../../contracts/denv';
import { failureTable } from '../../contracts/failures';
import type { FailureType } from '../../contracts/failures';
import type { FailureClass } from '../../contracts/rollout';
import { ContractMismatchError, DenvError } from '../../denv/errors';
import { ModelError } from '../../models/model';
import { RolloutError } from '../../rollouts/errors';
import { BlobNotFoundError } from '../../stores/blobs';
import { StoreError } from '../../stores/errors';

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
  if (error instanceof RolloutError) {
    return failure(error.code === 'not_found' ? 'BlobNotFound' : 'InvalidRequest', error);
  }
  if (error instanceof BlobNotFoundError) return failure('BlobNotFound', error);
  if (error instanceof StoreError) return failure('StoreUnavailable', error);
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
