import type { ParsedCallRequest } from '../../contracts/denv';
import { DenvError } from '../errors';
import type { SandboxRow } from './rows';

type CallMethod = ParsedCallRequest['method'];
export type Once = 'hudStart' | 'hudGrade';

const asking = new Set<CallMethod>(['tools/list', 'hud/tasks']);

/** What only asks changes nothing: it may be asked again. */
export const hasEffect = (method: CallMethod): boolean => !asking.has(method);

/** Which of the things that a sandbox does once in its life a method is. */
export function onceOf(method: CallMethod): Once | null {
  if (method === 'hud/start') return 'hudStart';
  return method === 'hud/grade' ? 'hudGrade' : null;
}

/**
 * A HUD environment has one task in a sandbox's life, and one grade. A second grade would run the grader again on what it left,
 * and one without a start could adopt a task of somebody else.
 */
export function refuseSecond({ id, controller }: SandboxRow, once: Once, key: string): void {
  const before = controller[once];
  const what = once === 'hudStart' ? 'started its task' : 'been graded';
  if (before !== undefined && before !== key) {
    throw new DenvError('invalid_request', `sandbox ${id} has ${what} before, by ${before}`);
  }
  if (once === 'hudGrade' && controller.hudStart === undefined) {
    throw new DenvError(
      'invalid_request',
      `sandbox ${id} has started no task that could be graded`,
    );
  }
}

export function refuseForeign({ id, spec }: SandboxRow, method: CallMethod): void {
  if (!method.startsWith('hud/') || spec.controller.kind === 'hud') return;
  throw new DenvError(
    'invalid_request',
    `method: ${method} needs a controller of kind hud, and that of ${id} is ${spec.controller.kind}`,
  );
}
