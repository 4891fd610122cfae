import type { ErrorBody, ErrorCode } from '../contracts/denv';

/** The one table of the denv API's errors, for both ends: HTTP status, and whether asking again may help. */
export const errorTable: Record<ErrorCode, { status: number; retryable: boolean }> = {
  invalid_request: { status: 400, retryable: false },
  unauthorized: { status: 401, retryable: false },
  sandbox_not_found: { status: 404, retryable: false },
  version_not_found: { status: 404, retryable: false },
  operation_not_found: { status: 404, retryable: false },
  key_conflict: { status: 409, retryable: false },
  sandbox_stopped: { status: 409, retryable: false },
  outcome_unknown: { status: 409, retryable: false },
  sandbox_gone: { status: 410, retryable: false },
  capability_missing: { status: 422, retryable: false },
  image_not_found: { status: 422, retryable: false },
  version_in_use: { status: 409, retryable: false },
  files_missing: { status: 422, retryable: false },
  controller_failed: { status: 422, retryable: false },
  rate_limited: { status: 429, retryable: true },
  internal: { status: 500, retryable: true },
  over_capacity: { status: 503, retryable: true },
  unavailable: { status: 503, retryable: true },
  disk_full: { status: 507, retryable: true },
};

/** An error of the denv API, as the server answers it and as the client throws it. */
export class DenvError extends Error {
  readonly code: ErrorCode;
  readonly details: Record<string, unknown> | undefined;
  /** Seconds to wait before asking again, where the server said so. */
  readonly retryAfterS: number | undefined;

  constructor(
    code: ErrorCode,
    message: string,
    options: { details?: Record<string, unknown>; cause?: unknown; retryAfterS?: number } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'DenvError';
    this.code = code;
    this.details = options.details;
    this.retryAfterS = options.retryAfterS;
  }

  get status(): number {
    return errorTable[this.code].status;
  }

  get retryable(): boolean {
    return errorTable[this.code].retryable;
  }

  toBody(): ErrorBody {
    const details = this.details ? { details: this.details } : {};
    return { error: { code: this.code, message: this.message, ...details } };
  }
}

/** A reply that its schema refuses: the two ends do not speak the same version of the contract. */
export class ContractMismatchError extends Error {
  override readonly name = 'ContractMismatchError';
}

/** The error as the API reports it; what is not a DenvError is `internal`. */
export function toDenvError(error: unknown): DenvError {
  if (error instanceof DenvError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new DenvError('internal', message, { cause: error });
}
