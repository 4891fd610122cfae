import { RolloutError } from '../rollouts/errors';

/** Something a person can mend: its message is printed as it stands, without a stack. */
export class UserError extends Error {
  override readonly name: string = 'UserError';
  readonly exitCode: number = 1;
}

/** Bad usage, or a taskset that is refused: nothing was started. */
export class UsageError extends UserError {
  override readonly name = 'UsageError';
  override readonly exitCode = 2;
}

/** The command needs the running stack. */
export class StackDownError extends UserError {
  override readonly name = 'StackDownError';
  constructor(what: string) {
    super(`${what}\nStart the stack with: rollouts up --detach`);
  }
}

/** The error as the command line tells it, when a person can mend it; null for any other. */
export function toUserError(error: unknown): UserError | null {
  if (error instanceof UserError) return error;
  if (!(error instanceof RolloutError)) return null;
  return error.code === 'not_found' ? new UserError(error.message) : new UsageError(error.message);
}

export function reasonOf(error: unknown): string {
  const message: unknown = Reflect.get(Object(error), 'message');
  return typeof message === 'string' ? message : String(error);
}
