/**
 * Thrown when a request does not fit what is recorded: `not_found` when it names a rollout or a batch that nobody recorded,
 * `invalid_request` when it asks for something that the record does not have. The message tells a person what to do.
 */
export class RolloutError extends Error {
  override readonly name = 'RolloutError';

  constructor(
    readonly code: 'not_found' | 'invalid_request',
    message: string,
  ) {
    super(message);
  }
}
