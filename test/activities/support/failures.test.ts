import { ApplicationFailure, CancelledFailure } from '@temporalio/activity';
import { FoundError, toFailure, toFinalFailure } from '../../../activities/support/failures';
import { errorCodes } from '../../../contracts/denv';
import { ContractMismatchError, DenvError } from '../../../denv/errors';
import { ModelError } from '../../../models/model';
import { BlobNotFoundError } from '../../../stores/blobs';
import { StoreError } from '../../../stores/errors';

describe('toFailure', () => {
  test.each([
    ['invalid_request', 'InvalidRequest', 'task', true, 'never'],
    ['unauthorized', 'Unauthorized', 'infra', true, 'never'],
    ['sandbox_not_found', 'SandboxNotFound', 'infra', true, 'attempt'],
    ['version_not_found', 'VersionNotFound', 'task', true, 'never'],
    ['operation_not_found', 'DenvUnavailable', 'infra', false, 'attempt'],
    ['key_conflict', 'KeyConflict', 'infra', true, 'attempt'],
    ['sandbox_stopped', 'SandboxStopped', 'infra', true, 'attempt'],
    ['sandbox_gone', 'SandboxNotFound', 'infra', true, 'attempt'],
    ['capability_missing', 'CapabilityMissing', 'task', true, 'never'],
    ['image_not_found', 'ImageNotFound', 'task', true, 'never'],
    ['files_missing', 'InvalidRequest', 'task', true, 'never'],
    ['controller_failed', 'ControllerFailed', 'controller', true, 'attempt'],
    ['outcome_unknown', 'OutcomeUnknown', 'infra', true, 'attempt'],
    ['rate_limited', 'DenvRateLimited', 'infra', false, 'attempt'],
    ['over_capacity', 'OverCapacity', 'infra', false, 'attempt'],
    ['disk_full', 'DiskFull', 'infra', false, 'attempt'],
    ['unavailable', 'DenvUnavailable', 'infra', false, 'attempt'],
    ['internal', 'DenvUnavailable', 'infra', false, 'attempt'],
  ] as const)('%s of denv is %s, class %s', (code, type, klass, nonRetryable, again) => {
    const failure = toFailure(new DenvError(code, 'what was tried')) as ApplicationFailure;

    expect(failure).toMatchObject({ type, nonRetryable, message: 'what was tried' });
    expect(failure.details).toEqual([{ class: klass, again }]);
  });

  test('knows every code of the contract', () => {
    for (const code of errorCodes) {
      expect(toFailure(new DenvError(code, 'x'))).toBeInstanceOf(ApplicationFailure);
    }
  });

  test.each([
    [new ModelError('ModelUnavailable', 'x'), 'ModelUnavailable', 'model', false],
    [new ModelError('ModelRateLimited', 'x'), 'ModelRateLimited', 'model', false],
    [new ModelError('ModelUnauthorized', 'x'), 'ModelUnauthorized', 'model', true],
    [new ModelError('ModelRequestInvalid', 'x'), 'ModelRequestInvalid', 'model', true],
    [new ModelError('ModelRefused', 'x'), 'ModelRefused', 'agent', true],
    [new ModelError('ContextOverflow', 'x'), 'ContextOverflow', 'agent', true],
    [new FoundError('SetupFailed', 'x'), 'SetupFailed', 'task', true],
    [new FoundError('RunTimeout', 'x'), 'RunTimeout', 'agent', true],
    [new ContractMismatchError('x'), 'ContractMismatch', 'infra', true],
    [new BlobNotFoundError('x'), 'BlobNotFound', 'infra', true],
    [new StoreError('ENOSPC', 'x', null), 'StoreUnavailable', 'infra', false],
    [Object.assign(new Error('x'), { code: 'ENOSPC' }), 'Unexpected', 'infra', false],
    [Object.assign(new Error('x'), { code: 'ERR_INVALID_ARG_TYPE' }), 'Unexpected', 'infra', false],
    [new TypeError('x'), 'Unexpected', 'infra', false],
    ['a string', 'Unexpected', 'infra', false],
  ])('%s is %s, class %s', (error, type, klass, nonRetryable) => {
    const failure = toFailure(error) as ApplicationFailure;

    expect(failure).toMatchObject({ type, nonRetryable });
    expect(failure.details?.[0]).toMatchObject({ class: klass });
  });

  test('a wait that a server asks for becomes the delay of the next try', () => {
    const denv = toFailure(new DenvError('rate_limited', 'x', { retryAfterS: 3 }));
    const model = toFailure(new ModelError('ModelRateLimited', 'x', { retryAfterS: 0.5 }));

    expect((denv as ApplicationFailure).nextRetryDelay).toBe(3000);
    expect((model as ApplicationFailure).nextRetryDelay).toBe(500);
  });

  test('carries what a workflow decides by: evidence of a stop, version of an unknown outcome', () => {
    const stopped = { by: 'inside' as const, what: 'oom_kill' as const, at: '2026-01-01' };
    const stop = toFailure(new DenvError('sandbox_stopped', 'x', { details: { stopped } }));
    const unknown = toFailure(
      new DenvError('outcome_unknown', 'x', { details: { version: 'ver_1' } }),
    );

    expect((stop as ApplicationFailure).details?.[0]).toMatchObject({ evidence: stopped });
    expect((unknown as ApplicationFailure).details?.[0]).toMatchObject({ version: 'ver_1' });
  });

  test('leaves cancellations and failures as they are', () => {
    const cancelled = new CancelledFailure('x');
    const failure = ApplicationFailure.create({ type: 'Mine' });

    expect(toFailure(cancelled)).toBe(cancelled);
    expect(toFailure(failure)).toBe(failure);
  });
});

describe('toFinalFailure', () => {
  test('is not tried again, whatever its type', () => {
    expect(toFinalFailure(new DenvError('disk_full', 'x'))).toMatchObject({
      type: 'DiskFull',
      nonRetryable: true,
    });
  });
});
