import type { ModelReply, TrajectoryEntry } from '../../contracts/trajectory';

/**
 * Whether a reply's prompt begins with the prompt and the answer of the reply before, token by token: only then are the two one
 * sequence that a model can be trained on. Undefined for a reply without token ids. The first reply has nothing to extend; one
 * that follows a reply without ids does not extend it.
 */
export function checkIds(
  before: TrajectoryEntry[],
  { promptTokenIds, tokenIds }: ModelReply,
): 'extend' | 'broken' | undefined {
  if (!promptTokenIds || !tokenIds) return undefined;
  const last = before.findLast((entry) => entry.type === 'reply')?.reply;
  if (!last) return 'extend';
  if (!last.promptTokenIds || !last.tokenIds) return 'broken';
  const ids = [...last.promptTokenIds, ...last.tokenIds];
  return ids.every((id, index) => promptTokenIds[index] === id) ? 'extend' : 'broken';
}
