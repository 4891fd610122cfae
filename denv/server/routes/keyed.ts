import type { Context } from 'hono';
import { readKey, within } from '../http';
import type { Operations } from '../operations';

/** Seconds that an answer waits for its operation where the request says nothing. */
export const DEFAULT_WAIT_S = 30;

/** Answers with the outcome of the operation of the request's key: begins it, or joins it; 202 when it takes longer than `waitS`. */
export async function answerOperation(
  c: Context,
  operations: Operations,
  operation: {
    kind: string;
    sandbox: string;
    /** The fields that make the effect: another value under the same key is a conflict. */
    effect: unknown;
    prepare: () => Promise<unknown>;
  },
  waitS = DEFAULT_WAIT_S,
): Promise<Response> {
  const key = readKey(c);
  const outcome = await within(operations.start({ key, ...operation }), waitS);
  if (!outcome) return Response.json({ key, state: 'running' }, { status: 202 });
  return Response.json(outcome.body, { status: outcome.status });
}
